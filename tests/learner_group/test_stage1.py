"""Mem-π's Stage 1: a bank's hints learnt by heart, on one rank and on two, in one go and with a break."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentmem.chat import ChatCodec, DecisionTokens
from agentmem.config import AdviceConfig, LearnerConfig, Stage1Config
from agentmem.failures import ConfigError
from learner.distil import Distilled, DistilStep, distil
from learner.group import LearnerGroup
from learner.row import Row
from learner.settings import RankSettings
from learner.stage1 import Record, batch_of, encode, example, settings_of, steps_of
from tests.learner_group.advised import EOS, FIRST_WORD, TOKENS, WORDS, save_memory_model

TOLERANCE = 2e-4
"""Largest difference between one rank and two: float32 sums in another order."""
STAGE1 = Stage1Config(lr=1e-3, epochs=2, batch=8, max_prompt=16, max_target=6)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_memory_model(tmp_path_factory.mktemp("memory"))


@pytest.fixture(scope="module")
def codec(model: str) -> ChatCodec:
    return ChatCodec(model)


def records(n: int, seed: int = 0) -> list[Record]:
    """The hint says the first word of the task and one that depends on it."""
    rng = random.Random(seed)
    out: list[Record] = []
    for _ in range(n):
        words = rng.choices(WORDS[:8], k=rng.randint(2, 6))
        answer = f"{words[0]} {WORDS[WORDS.index(words[0]) + 8]}"
        out.append(([("user", " ".join(words))], answer))
    return out


def test_the_hint_and_its_end_are_learnt_and_the_decision_is_not(codec: ChatCodec) -> None:
    (row,) = encode([([("user", "w0 w1")], "w2 w3")], codec, TOKENS, STAGE1).rows
    assert row.prompt == (*codec.encode([("user", "w0 w1")]), TOKENS.generate)
    assert row.response == (FIRST_WORD + 2, FIRST_WORD + 3, EOS)
    assert row.trained == 3


def test_of_a_long_prompt_head_and_tail_are_kept_and_a_long_hint_has_no_end(codec: ChatCodec) -> None:
    prompt, hint = list(range(5, 40)), "w1 w2 w3 w4 w5 w6 w7"
    told = encode([(prompt, hint), ([5, 6], "w1 w2 w3 w4 w5 w6")], codec, TOKENS, STAGE1)
    long, fits = told.rows
    assert long.prompt == (*prompt[:8], *prompt[-8:], TOKENS.generate)
    assert len(long.response) == 6
    assert EOS not in long.response
    assert fits.prompt == (5, 6, TOKENS.generate)
    assert len(fits.response) == 7
    assert fits.response[-1] == EOS
    assert (told.prompts_cut, told.hints_cut) == (1, 1)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (("w1", ""), "its hint 0"),
        (([], "w1"), "its prompt has 0 tokens"),
        (("w1", "w2 [ABSTAIN]"), "holds a decision token"),
    ],
)
def test_a_record_that_cannot_be_learnt_is_refused_by_its_number(
    codec: ChatCodec, record: Record, says: str
) -> None:
    with pytest.raises(ConfigError, match="record 1: .*" + says):
        encode([("w1", "w2"), record], codec, TOKENS, STAGE1)


@given(st.integers(1, 50), st.integers(1, 20), st.integers(1, 3))
def test_an_epoch_takes_every_record_once(records: int, batch: int, epochs: int) -> None:
    steps = steps_of(records, Stage1Config(batch=batch, epochs=epochs))
    taken = [batch_of(step, records=records, batch=batch, seed=3) for step in range(steps)]
    assert Counter(i for part in taken for i in part) == dict.fromkeys(range(records), epochs)
    assert all(0 < len(part) <= batch for part in taken)
    assert batch_of(steps - 1, records=records, batch=batch, seed=3) == taken[-1]


def test_the_schedule_warms_up_for_its_share_and_falls_along_a_cosine(model: str) -> None:
    from learner.schedule import lr_factor

    base = RankSettings(policy="memory", model=model, advice=AdviceConfig(stage1=Stage1Config()))
    learner = settings_of(base, 64 * 100).learner
    assert (learner.updates, learner.warmup_updates, learner.lr) == (301, 9, 1e-5)
    factors = [
        lr_factor(
            step,
            updates=learner.updates,
            warmup=learner.warmup_updates,
            schedule=learner.schedule,
            min_ratio=learner.min_lr_ratio,
        )
        for step in range(300)
    ]
    assert factors[:9] == sorted(factors[:9])
    assert factors[9] == max(factors) == 1.0
    assert factors[9:] == sorted(factors[9:], reverse=True)
    assert 0 < factors[-1] < 1e-3


def settings(model: str, rows: int, *, ranks: int = 1, stage: int = 0, epochs: int = 2) -> RankSettings:
    base = RankSettings(
        policy="memory",
        model=model,
        learner=LearnerConfig(
            ranks=ranks, zero_stage=stage, token_budget=48, timeout_s=120.0, checkpoint_every=2
        ),
        advice=AdviceConfig(stage1=STAGE1.model_copy(update={"epochs": epochs})),
        seed=7,
    )
    return settings_of(base, rows)


class Broken(Exception):
    """Stands for whatever ends a training."""


def trained(
    settings: RankSettings, rows: list[Row], held_out: list[Row], folder: Path, *, break_at: int = 0
) -> tuple[Distilled, dict[int, DistilStep], torch.Tensor]:
    """Run Stage 1, its process ending once after step `break_at`; what it gave, its steps, all weights."""
    from transformers import AutoModelForCausalLM

    seen: dict[int, DistilStep] = {}

    def watch(step: DistilStep) -> None:
        seen[step.step] = step
        if step.step == break_at:
            raise Broken

    if break_at:
        with LearnerGroup(settings, cpus_per_rank=0) as group, pytest.raises(Broken):
            distil(group, rows, held_out, checkpoints=folder / "checkpoints", on_step=watch)
        break_at = 0
    with LearnerGroup(settings, cpus_per_rank=0) as group:
        done = distil(group, rows, held_out, checkpoints=folder / "checkpoints", on_step=watch)
        final = group.final_model(folder / "final")
    assert DecisionTokens.of(final) == TOKENS  # so that Stage 2 can start from it
    model = AutoModelForCausalLM.from_pretrained(final, dtype=torch.float32)
    return done, seen, torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.usefixtures("cluster")
def test_stage_1_learns_the_hints_and_a_broken_one_ends_where_an_unbroken_one_does(
    model: str, codec: ChatCodec, tmp_path: Path
) -> None:
    rows = encode(records(44), codec, TOKENS, STAGE1).rows
    held_out = encode(records(16, seed=1), codec, TOKENS, STAGE1).rows
    whole, steps, weights = trained(settings(model, len(rows)), rows, held_out, tmp_path / "whole")
    assert whole.steps == len(steps) == 12
    assert whole.before is not None
    assert whole.before > whole.held_out[0] > whole.held_out[1]
    assert [n for n, step in steps.items() if step.held_out is not None] == [6, 12]
    # Five steps are done, four of them saved: the second attempt begins in the middle of the first epoch.
    again, seen, resumed = trained(
        settings(model, len(rows)), rows, held_out, tmp_path / "broken", break_at=5
    )
    assert again == whole
    assert seen == steps
    assert torch.equal(resumed, weights)
    both, pairs, shared = trained(
        settings(model, len(rows), ranks=2, stage=2), rows, held_out, tmp_path / "two"
    )
    assert both.held_out == pytest.approx(whole.held_out, abs=TOLERANCE)
    for number, step in pairs.items():
        assert step.loss == pytest.approx(steps[number].loss, abs=TOLERANCE)
    torch.testing.assert_close(shared, weights, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.usefixtures("cluster")
def test_a_checkpoint_of_other_records_is_refused(model: str, codec: ChatCodec, tmp_path: Path) -> None:
    rows = encode(records(8), codec, TOKENS, STAGE1).rows
    with LearnerGroup(settings(model, 8, epochs=1), cpus_per_rank=0) as group:
        distil(group, rows, checkpoints=tmp_path)
        other = [*rows[:-1], example((5, TOKENS.generate), (6, EOS))]
        with pytest.raises(ConfigError, match="of other records"):
            distil(group, other, checkpoints=tmp_path)
        with pytest.raises(ConfigError, match="no records"):
            distil(group, [], checkpoints=tmp_path)

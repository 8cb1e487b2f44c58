"""EMPO² on a learner: what is trained off policy, what the mask takes, what novelty does to the gradient."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from agentmem.config.learning import CreditConfig, LearnerConfig, ObjectiveConfig
from agentmem.config.schema import MemoryConfig, NoveltyConfig
from agentmem.trajectory import Episode, Mode, Trial, Turn
from learner.intrinsic import IntrinsicRewards
from learner.rank import LearnerRank
from learner.rows import build_rows
from learner.settings import RankSettings
from tests.learner_group.support import groups, save_model, trial

KEEP_ALL = CreditConfig(estimator="grpo", norm="mean_std", drop_zero_advantage=False)
STILL = LearnerConfig(lr=1e-9, warmup_updates=0)
WORDS = MemoryConfig(embedder="words")
Make = Callable[..., LearnerRank]


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """Makes ranks of one small model; closes them."""
    model = save_model(tmp_path / "model")
    ranks: list[LearnerRank] = []

    def new(**settings: Any) -> LearnerRank:
        base: dict[str, Any] = {"policy": "agent", "model": model, "learner": STILL, "credit": KEEP_ALL}
        ranks.append(LearnerRank(RankSettings(**{**base, **settings})))
        return ranks[-1]

    yield new
    for rank in ranks:
        rank.close()


def each_turn(whole: Trial, change: Callable[[Turn], Turn]) -> Trial:
    """The trial with every act turn changed."""

    def played(episode: Episode) -> Episode:
        return msgspec.structs.replace(episode, turns=tuple(change(turn) for turn in episode.turns))

    return msgspec.structs.replace(
        whole, episodes=tuple(played(episode) for episode in whole.episodes), reflections=()
    )


def with_tips(whole: Trial, draw: str = "off_policy") -> Trial:
    """As it would be if tips (the ids 5, 6) had stood before each prompt."""

    def shown(turn: Turn) -> Turn:
        student = turn.prompt_ids if draw == "off_policy" else None
        return msgspec.structs.replace(turn, prompt_ids=(5, 6, *turn.prompt_ids), student_prompt_ids=student)

    mode = Mode(method="empo2", episodes=len(whole.episodes), draw=draw, tips="train")
    return msgspec.structs.replace(each_turn(whole, shown), mode=mode)


def played(seed: int, draw: str) -> list[list[Trial]]:
    return [[with_tips(one, draw) for one in group] for group in groups(seed)]


def sampled(rank: LearnerRank, batch: list[list[Trial]]) -> list[list[Trial]]:
    """With the log-probs that an exact sampler reports for the prompts that were answered."""
    model = rank.model.model

    def exact(turn: Turn) -> Turn:
        assert turn.response_ids is not None
        with torch.no_grad():
            logp = torch.log_softmax(model(torch.tensor([turn.prompt_ids + turn.response_ids])).logits[0], -1)
        first = len(turn.prompt_ids) - 1
        found = (float(logp[first + j, token]) for j, token in enumerate(turn.response_ids))
        return msgspec.structs.replace(turn, logprobs=tuple(min(0.0, p) for p in found))

    return [[each_turn(one, exact) for one in group] for group in batch]


def test_off_policy_rows_stand_on_the_prompt_without_tips_and_on_policy_rows_on_the_one_with_them() -> None:
    off = build_rows(played(0, "off_policy"), KEEP_ALL).rows
    on = build_rows(played(0, "tips"), KEEP_ALL).rows
    assert all(row.off_policy for row in off)
    assert not any(row.off_policy for row in on)
    assert [row.prompt for row in on] == [(5, 6, *row.prompt) for row in off]
    assert [row.response for row in on] == [row.response for row in off]


def test_each_trial_is_trained_in_the_mode_that_it_was_played_in() -> None:
    mixed = [*played(0, "off_policy")[:1], *played(1, "tips")[:1], *groups(2)[:1]]
    rows = build_rows(mixed, KEEP_ALL).rows
    first, second = len(mixed[0]), len(mixed[0]) + len(mixed[1])
    assert all(row.off_policy == (row.trial < first) for row in rows)
    assert any(row.trial >= second for row in rows)


def test_the_old_log_prob_of_behaviour_is_the_engines_and_that_of_student_gives_a_ratio_of_one(
    make: Make,
) -> None:
    ratios = {}
    for old in ("behaviour", "student"):
        rank = make(objective=ObjectiveConfig(off_policy_old=old, mask_delta=0.0))  # type: ignore[arg-type]
        metrics = rank.update_groups(sampled(rank, played(0, "off_policy")), 0).metrics
        ratios[old] = metrics["off_policy_ratio"]
        assert metrics["off_policy_tokens"] == metrics["tokens_trained"]
        assert "on_policy_ratio" not in metrics
    assert ratios["student"] == pytest.approx(1.0, abs=1e-5)
    assert abs(ratios["behaviour"] - 1.0) > 1e-3


def test_the_ratio_off_policy_is_that_of_two_prompts(make: Make) -> None:
    rank = make(objective=ObjectiveConfig(mask_delta=0.0, clip_low=10.0, clip_high=10.0))
    batch = sampled(rank, played(3, "off_policy"))
    without = sampled(
        rank,
        [
            [each_turn(t, lambda x: msgspec.structs.replace(x, prompt_ids=x.student_prompt_ids)) for t in g]
            for g in batch
        ],
    )
    differences = [
        s - b
        for g_with, g_without in zip(batch, without, strict=True)
        for t_with, t_without in zip(g_with, g_without, strict=True)
        for x, y in zip(t_with.turns(), t_without.turns(), strict=True)
        for b, s in zip(x.logprobs or (), y.logprobs or (), strict=True)
    ]
    expected = sum(math.exp(d) for d in differences) / len(differences)
    squares = sum(math.exp(2 * d) for d in differences)
    metrics = rank.update_groups(batch, 0).metrics
    assert metrics["off_policy_ratio"] == pytest.approx(expected, rel=1e-4)
    assert metrics["off_policy_ess"] == pytest.approx(expected**2 * len(differences) / squares, rel=1e-4)
    assert metrics["mismatch_kl"] == 0.0


def test_the_mask_takes_unlikely_tokens_off_policy_alone(make: Make) -> None:
    certain = 1.0 - 1e-6  # no token of a random model is so likely
    rank = make(
        objective=ObjectiveConfig(mask_delta=certain), learner=LearnerConfig(lr=1e-2, warmup_updates=0)
    )
    off = rank.update_groups(sampled(rank, played(0, "off_policy")), 0).metrics
    assert off["off_policy_masked"] == 1.0
    assert off["policy_loss"] == 0.0
    assert off["grad_norm"] == 0.0
    on = rank.update_groups(sampled(rank, played(0, "tips")), 0).metrics
    assert "off_policy_masked" not in on
    assert on["grad_norm"] > 0.0


def test_a_spoilt_turn_loses_all_its_tokens_with_the_scope_turn(make: Make) -> None:
    shares = {}
    for scope in ("token", "turn"):
        rank = make(objective=ObjectiveConfig(mask_delta=0.01, mask_scope=scope))  # type: ignore[arg-type]
        metrics = rank.update_groups(sampled(rank, played(4, "off_policy")), 0).metrics
        shares[scope] = metrics["off_policy_masked"]
    assert 0.0 < shares["token"] < shares["turn"] < 1.0


@pytest.mark.parametrize("mode", ["plain", "tips", "off_policy"])
def test_novelty_reaches_the_gradient(make: Make, mode: str) -> None:
    """All trials of a group are rewarded alike: only what is new in some of them tells them apart."""
    same = [msgspec.structs.replace(trial(random.Random(5), member, 0), member=member) for member in range(4)]
    lost = [
        each_turn(one, lambda turn: msgspec.structs.replace(turn, reward=0.0, invalid=False)) for one in same
    ]
    batch = [[with_tips(one, mode) if mode != "plain" else one for one in lost]]
    norms = {}
    for coefficient in (0.0, 0.1):
        memory = WORDS.model_copy(update={"novelty": NoveltyConfig(coefficient=coefficient)})
        rank = make(memory=memory, objective=ObjectiveConfig(mask_delta=0.0))
        result = rank.update_groups(batch, 0)
        norms[coefficient] = result.metrics["grad_norm"]
        assert (result.rows.intrinsic_mean > 0) == (coefficient > 0)
    assert norms[0.0] == 0.0
    assert norms[0.1] > 0.0


def test_visits_are_paid_less_and_less_and_modes_can_be_left_out() -> None:
    rewards = IntrinsicRewards(WORDS.model_copy(update={"novelty": NoveltyConfig(modes=["plain"], tau=1.0)}))
    one = each_turn(
        trial(random.Random(0), 0, 0, episodes=1),
        lambda turn: msgspec.structs.replace(turn, observation="a hall with two doors"),
    )
    paid = rewards.of([[one, with_tips(one)], [one]], replayed=1)
    assert paid == [[[pytest.approx([0.1, 0.1 / 2, 0.1 / 3])], None], [None]]


def test_what_was_counted_comes_back_with_a_checkpoint(make: Make, tmp_path: Path) -> None:
    rank = make(memory=WORDS)
    first = rank.update_groups(played(0, "plain"), 0).rows.intrinsic_mean
    folder = rank.save_checkpoint(str(tmp_path / "checkpoints"), 1, {})
    again = rank.update_groups(played(0, "plain"), 1).rows.intrinsic_mean
    assert again < first
    other = make(memory=WORDS)
    other.load_checkpoint(folder)
    assert other.update_groups(played(0, "plain"), 1).rows.intrinsic_mean == pytest.approx(again)

"""Mem-π on a learner: what an update does to the decision and to the hints of a real model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from agentmem.app.training.bank_feed import BankFeed
from agentmem.config import AdviceConfig, LearnerConfig, LoraConfig, ObjectiveConfig
from agentmem.failures import ConfigError, ModelError
from agentmem.memory.advisor import late_turn
from agentmem.trajectory import Trial
from agentmem.weights.files import FilesReceiver
from learner.rank import LearnerRank
from learner.settings import RankSettings
from learner.stage1 import example
from tests.learner_group.advised import EOS, PROMPT, TOKENS, advice, advised, save_memory_model, structured

LEARNER = LearnerConfig(lr=3e-4, warmup_updates=0, updates=1000)
FREE_OF_KL = AdviceConfig(kl_coef=0.0, length_coef=0.0)
Make = Callable[..., LearnerRank]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_memory_model(tmp_path_factory.mktemp("memory"))


@pytest.fixture
def make(model: str, tmp_path: Path) -> Iterator[Make]:
    ranks: list[LearnerRank] = []

    def new(**settings: Any) -> LearnerRank:
        base: dict[str, Any] = {
            "policy": "memory",
            "model": model,
            "learner": LEARNER,
            "advice": FREE_OF_KL,
            "weights_dir": str(tmp_path / "weights"),
        }
        ranks.append(LearnerRank(RankSettings(**{**base, **settings}), device=torch.device("cpu")))
        return ranks[-1]

    yield new
    for rank in ranks:
        rank.close()


def logits(rank: LearnerRank, prompt: tuple[int, ...] = PROMPT) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = rank.model.model(input_ids=torch.tensor([prompt])).logits[0, -1]
    return found


def p_generate(rank: LearnerRank) -> float:
    """Among all tokens of the vocabulary."""
    return float(torch.softmax(logits(rank), -1)[TOKENS.generate])


def p_hint(rank: LearnerRank, hint: tuple[int, ...]) -> float:
    prompt, total = (*PROMPT, TOKENS.generate), 0.0
    for token in (*hint, EOS):
        total += float(torch.log_softmax(logits(rank, prompt), -1)[token])
        prompt = (*prompt, token)
    return math.exp(total)


def start_at(rank: LearnerRank, p: float) -> None:
    """Turn the head so that the model decides at PROMPT, and generates with probability p."""
    inner = rank.model.model
    with torch.no_grad():
        hidden = inner.model(input_ids=torch.tensor([PROMPT])).last_hidden_state[0, -1]
        others = float(torch.logsumexp(logits(rank), -1))
        for token, share in ((TOKENS.generate, p), (TOKENS.abstain, 1 - p)):
            wanted = others + 8.0 + math.log(share)
            row = inner.lm_head.weight[token]
            row += (wanted - row @ hidden) * hidden / (hidden @ hidden)
    assert p_generate(rank) == pytest.approx(p, abs=2e-3)


def helps(yes: bool) -> list[list[Trial]]:
    return [structured([not yes] * 2, [yes] * 7)]


@pytest.mark.parametrize("start", [0.02, 0.98])
@pytest.mark.parametrize("yes", [True, False], ids=["helps", "harms"])
def test_one_update_makes_generating_likelier_exactly_where_it_helps(
    make: Make, start: float, yes: bool
) -> None:
    # A small step: `start_at` made the head steep, and what holds to first order is what is claimed.
    rank = make(learner=LEARNER.model_copy(update={"lr": 1e-4}))
    start_at(rank, start)
    before = p_generate(rank)
    result = rank.update_groups(helps(yes), 0)
    assert result.applied
    assert (p_generate(rank) > before) == yes
    assert result.metrics["p_generate"] == pytest.approx(start, abs=2e-3)
    assert result.metrics["generate_share"] == float(start > 0.5)
    assert result.metrics["p_generate_0" if start < 0.5 else "p_generate_9"] == 1.0
    assert result.metrics["dead_groups"] == 0


def chooses(rank: LearnerRank) -> float:
    """p(generate) between the two decisions, which is what decides at inference."""
    found = logits(rank)
    return float(torch.sigmoid(found[TOKENS.generate] - found[TOKENS.abstain]))


def updates_to_half(rank: LearnerRank, start: float) -> int:
    start_at(rank, start)
    for done in range(200):
        if (chooses(rank) > 0.5) != (start > 0.5):
            return done
        rank.update_groups(helps(start < 0.5), done)
    raise AssertionError("it never got there")


def test_abstention_is_left_about_as_fast_as_it_is_entered(make: Make) -> None:
    # A mean per sequence would make leaving 29 times slower. Long hints are what it would divide by.
    leaving, entering = (updates_to_half(make(), start) for start in (0.02, 0.98))
    assert 2 <= leaving <= 3 * entering
    assert entering <= 3 * leaving


def test_equal_rewards_move_nothing(make: Make) -> None:
    rank = make()
    before = rank.outlet.probe()
    dead = structured([True, True], [True] * 7)
    result = rank.update_groups([dead], 0)
    assert (result.applied, result.metrics["dead_groups"], result.metrics["empty"]) == (False, 1.0, 1.0)
    assert rank.update_groups([dead, *helps(True)], 0).applied
    held = make(advice=AdviceConfig(length_coef=0.0))
    assert held.update_groups([dead], 0).metrics["tokens_trained"] > 0
    rank = make()
    rank.update_groups([dead], 0)
    assert rank.outlet.probe().logprobs == before.logprobs


def two_hints(abstain: bool) -> list[list[Trial]]:
    good, bad = advice("generate", (9, 10)), advice("generate", (11, 12))
    return [
        [
            advised("abstain", abstain),
            advised("generate", True, good, member=1),
            advised("generate", False, bad, member=2),
        ]
    ]


@pytest.mark.parametrize("gate", ["hard", "none"])
def test_the_better_hint_becomes_likelier_while_generating_beats_abstaining(make: Make, gate: str) -> None:
    advice_config = AdviceConfig(kl_coef=0.0, length_coef=0.0, decision_coef=0.0, gate=gate)  # type: ignore[arg-type]
    for abstain in (False, True):
        rank = make(advice=advice_config)
        good, bad = p_hint(rank, (9, 10)), p_hint(rank, (11, 12))
        rank.update_groups(two_hints(abstain), 0)
        taught = not abstain or gate == "none"
        assert (p_hint(rank, (9, 10)) > good * 1.01) == taught
        assert (p_hint(rank, (11, 12)) < bad * 0.99) == taught


@pytest.mark.parametrize("old", ["recompute", "engine"])
def test_a_forced_decisions_old_log_prob_is_that_of_the_updates_start(make: Make, old: str) -> None:
    rank = make(
        objective=ObjectiveConfig(old=old, importance="none"),  # type: ignore[arg-type]
        learner=LearnerConfig(lr=0.05, warmup_updates=0, minibatches=4, merge_turns=False),
    )
    seen: list[torch.Tensor] = []
    run = rank.method.share

    def watched(logits: Any, values: Any, batch: Any, mini: Any) -> Any:
        out = run(logits, values, batch, mini)
        seen.append(batch.old[torch.isnan(batch.engine)])
        return out

    rank.method.share = watched  # type: ignore[method-assign]
    before = {
        token: float(torch.log_softmax(logits(rank), -1)[token])
        for token in (TOKENS.generate, TOKENS.abstain)
    }
    rank.update_groups(helps(True), 0)
    old_ones = torch.cat(seen).tolist()
    assert len(old_ones) == 8
    assert old_ones == pytest.approx(
        [before[min(before, key=lambda t: abs(before[t] - o))] for o in old_ones], abs=1e-4
    )


def test_engine_log_probs_that_differ_weigh_hints_and_no_decisions(make: Make) -> None:
    rank = make(learner=LEARNER.model_copy(update={"lr": 1e-9}))
    metrics = rank.update_groups(two_hints(False), 0).metrics
    assert metrics["ratio_mean"] == pytest.approx(1.0)
    assert math.isfinite(metrics["mismatch_kl"])
    rank = make(objective=ObjectiveConfig(importance="mask", importance_cap=1e-6))
    before = chooses(rank)
    metrics = rank.update_groups(two_hints(False), 0).metrics
    # All six tokens of the hints lose their weight, and none of the three decisions.
    assert metrics["masked_share"] == pytest.approx(6 / 9)
    assert metrics["content_loss"] == 0.0
    assert chooses(rank) > before


def test_the_kl_is_to_the_model_of_the_start_and_holds_it_back(make: Make) -> None:
    moved = []
    for coefficient in (0.01, 10.0):
        rank = make(advice=AdviceConfig(kl_coef=coefficient, length_coef=0.0))
        start = p_generate(rank)
        first = rank.update_groups(helps(True), 0).metrics["kl"]
        assert first == pytest.approx(0.0, abs=1e-5)
        for version in range(1, 8):
            last = rank.update_groups(helps(True), version).metrics["kl"]
        assert last > 1e-6
        moved.append(p_generate(rank) - start)
    assert moved[1] < moved[0]


def test_however_an_update_is_cut_it_trains_the_same(make: Make) -> None:
    cuts: list[dict[str, Any]] = [
        {},
        {"plan": "packed"},
        {"merge_turns": False},
        {"token_budget": 12},
        {"token_budget": 12, "merge_turns": False, "plan": "packed"},
    ]
    advice_config = AdviceConfig(kl_coef=0.1, distil_coef=0.5)
    told = [example((*PROMPT, TOKENS.generate), (20, 21, EOS)), example((5, TOKENS.generate), (22, EOS))]
    played = [*helps(True), structured([True], [True, False, True], group=1)]
    found = []
    for cut in cuts:
        rank = make(advice=advice_config, learner=LEARNER.model_copy(update=cut))
        rank.update_groups(played, 0, 0, told)  # so that the KL isn't 0 in the second
        found.append(rank.update_groups(played, 1, 0, told).metrics)
    for name in ("decision_loss", "content_loss", "example_loss", "kl", "grad_norm", "p_generate", "entropy"):
        assert [metrics[name] for metrics in found] == pytest.approx([found[0][name]] * len(cuts), abs=2e-4)


def test_without_a_structure_what_was_sampled_is_learnt_from(make: Make) -> None:
    rank = make(advice=FREE_OF_KL.model_copy(update={"structured": False}))
    start_at(rank, 0.5)
    group = [
        advised("free", speaks, advice("free", (9, 10 + m), generate=speaks), member=m)
        for m, speaks in enumerate([True, True, False, False])
    ]
    result = rank.update_groups([group], 0)
    assert result.metrics["abstain_share"] == 0.5
    assert p_generate(rank) > 0.5


def test_examples_are_learnt_beside_the_trials_in_one_unified_stage(make: Make) -> None:
    rank = make(advice=FREE_OF_KL.model_copy(update={"distil_coef": 1.0}))
    told = [example((*PROMPT, TOKENS.generate), (20, 21, EOS))]
    decides, says = p_generate(rank), p_hint(rank, (20, 21))
    result = rank.update_groups(helps(True), 0, 0, told)
    assert result.metrics["example_loss"] > 1.0
    assert result.rows.trained_tokens == result.metrics["tokens_trained"]
    assert p_generate(rank) > decides
    assert p_hint(rank, (20, 21)) > says


def test_records_of_a_bank_change_the_gradient_of_the_same_trials(make: Make) -> None:
    rows = [example((*PROMPT, TOKENS.generate), (20 + n, 21, EOS)) for n in range(6)]
    feed = BankFeed(rows, batch=4, seed=3)
    unified = FREE_OF_KL.model_copy(update={"distil_coef": 1.0})
    alone, beside = make(advice=unified), make(advice=unified)
    without = alone.update_groups(helps(True), 0)
    fed = beside.update_groups(helps(True), 0, 0, feed.rows(0))
    assert "example_loss" not in without.metrics
    assert fed.metrics["grad_norm"] != pytest.approx(without.metrics["grad_norm"], rel=1e-3)
    assert not torch.equal(logits(alone), logits(beside))


def test_each_update_has_its_own_records_and_a_resumed_run_has_the_same() -> None:
    rows = [example((*PROMPT, TOKENS.generate), (20 + n, EOS)) for n in range(10)]
    feed, again = (BankFeed(rows, batch=4, seed=3) for _ in range(2))
    epoch = [row.response for update in range(3) for row in feed.rows(update)]
    assert sorted(epoch) == sorted(row.response for row in rows)
    assert [feed.rows(n) for n in (7, 100)] == [again.rows(n) for n in (7, 100)]
    assert len(BankFeed(rows[:2], batch=4, seed=3).rows(5)) == 2


def test_late_advice_in_a_trained_group_is_left_out_of_its_update(make: Make) -> None:
    whole, torn = make(), make()
    members = helps(True)
    lost = advised("generate", True, late_turn("start"), member=20)
    expected = whole.update_groups(members, 0)
    result = torn.update_groups([[*members[0], lost], *members[1:]], 0)
    assert result.applied
    assert result.metrics["grad_norm"] == pytest.approx(expected.metrics["grad_norm"], rel=1e-6)
    assert result.rows.unusable_trials == 1
    assert torch.equal(logits(whole), logits(torn))


def test_an_update_without_anything_to_compare_is_skipped_and_counted(make: Make) -> None:
    rank = make()
    result = rank.update_groups([structured([None, None], [True, False])], 3)
    assert (result.applied, result.version) == (False, 3)
    assert (result.metrics["empty"], result.metrics["dead_groups"]) == (1.0, 1.0)


def test_decision_rows_outlive_checkpoint_push_and_final_model(make: Make, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    from agentmem.chat import DecisionTokens

    rank = make()
    rank.update_groups(helps(True), 0)
    folder = rank.save_checkpoint(str(tmp_path / "checkpoints"), 1, {})
    expected = logits(rank)
    resumed = make()
    resumed.load_checkpoint(folder)
    assert torch.equal(logits(resumed), expected)
    after = [each.update_groups(helps(False), 1).metrics["grad_norm"] for each in (rank, resumed)]
    assert after[0] == after[1]
    update = rank.outlet.publish(1)
    assert update is not None
    pushed = FilesReceiver().receive(update).tensors
    assert pushed is not None
    rank.final_model(str(tmp_path / "final"))
    assert DecisionTokens.of(tmp_path / "final") == TOKENS
    final = AutoModelForCausalLM.from_pretrained(tmp_path / "final", dtype=torch.float32)
    for name, weight in (
        ("model.embed_tokens.weight", final.model.embed_tokens.weight),
        ("lm_head.weight", final.lm_head.weight),
    ):
        assert torch.equal(pushed[name], weight)
        assert pushed[name].shape[0] == TOKENS.abstain + 1


@pytest.mark.parametrize("stage", [0, 3])
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_with_lora_decisions_are_learnt_as_without_and_every_copy_of_the_weights_has_them(
    make: Make, tmp_path: Path, stage: int, tied: bool
) -> None:
    from transformers import AutoModelForCausalLM

    settings: dict[str, Any] = {
        "model": save_memory_model(tmp_path / "model", tied=tied),
        "advice": AdviceConfig(kl_coef=0.1),
        "learner": LEARNER.model_copy(update={"lr": 1e-3, "zero_stage": stage}),
    }
    full, rank = make(**settings), make(lora=LoraConfig(rank=4), **settings)
    assert rank.reference is None
    first = rank.update_groups(helps(True), 0).metrics
    start, known = first["p_generate"], full.update_groups(helps(True), 0).metrics["p_generate"]
    assert first["kl"] == pytest.approx(0.0, abs=1e-6)
    assert start == pytest.approx(known, abs=1e-6)
    for version in range(1, 6):
        found, expected = (each.update_groups(helps(True), version).metrics for each in (rank, full))
    assert found["kl"] > 0
    assert found["p_generate"] - start > 0.5 * (expected["p_generate"] - start) > 0.02
    # The same prompts through the rank, a rank that resumes, and the model that engines get.
    folder = rank.save_checkpoint(str(tmp_path / "checkpoints"), 6, {})
    resumed = make(lora=LoraConfig(rank=4), **settings)
    resumed.load_checkpoint(folder)
    assert resumed.outlet.probe() == rank.outlet.probe()
    rank.final_model(str(tmp_path / "final"))
    final = AutoModelForCausalLM.from_pretrained(tmp_path / "final", dtype=torch.float32)
    with torch.no_grad():
        gap = final(input_ids=torch.tensor([PROMPT])).logits[0, -1]
    last = rank.update_groups(helps(True), 6).metrics["p_generate"]
    assert torch.sigmoid(gap[TOKENS.generate] - gap[TOKENS.abstain]).item() == pytest.approx(last, abs=1e-5)
    update = make(lora=LoraConfig(rank=4), **settings).outlet.publish(1)
    assert update is not None
    assert {meta.name for meta in update.tensors} == {name for name, _ in final.named_parameters()}


def test_an_adapter_on_the_head_itself_is_refused(make: Make) -> None:
    with pytest.raises(ConfigError, match="lora.targets has the embedding or the head"):
        make(lora=LoraConfig(rank=4, targets=["q_proj", "lm_head"]))


def test_a_model_without_decision_tokens_is_refused_before_it_is_loaded(make: Make, tmp_path: Path) -> None:
    from tests.learner_group.support import save_model

    with pytest.raises(ModelError, match=r"lacks \[GENERATE\] and \[ABSTAIN\]"):
        make(model=save_model(tmp_path / "agent"))

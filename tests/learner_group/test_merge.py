"""Rows that share a beginning are trained in one sequence, with the same gradient."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentmem.config.learning import CreditConfig, ObjectiveConfig
from agentmem.sampling import Sampling
from learner.batching.merge import merge_rows
from learner.batching.plan import Strategy
from learner.batching.tensors import shards
from learner.loss import DeviceBatch, share
from learner.model import PolicyModel, load_base
from learner.row import Row
from learner.rows import build_rows
from tests.learner_group.support import VOCABULARY, groups, save_model

CPU = torch.device("cpu")


def plain_row(prompt: Sequence[int], response: Sequence[int], trial: int = 0, advantage: float = 1.0) -> Row:
    return Row(
        prompt=tuple(prompt),
        response=tuple(response),
        engine=(-2.0,) * len(response),
        versions=(0,) * len(response),
        sampling=Sampling(),
        advantage=advantage,
        trial=trial,
    )


TOKENS = st.integers(1, 2)
PAIRS = st.tuples(st.lists(TOKENS, min_size=1, max_size=6), st.lists(TOKENS, min_size=1, max_size=4))
ROWS = st.lists(PAIRS, max_size=25).map(lambda pairs: [plain_row(p, r) for p, r in pairs])


@given(ROWS)
def test_every_row_is_trained_in_exactly_one_sequence_that_starts_as_it_does(rows: list[Row]) -> None:
    merged = merge_rows(rows)
    assert sorted(r for sequence in merged for r in sequence.rows) == list(range(len(rows)))
    for sequence in merged:
        for r in sequence.rows:
            assert sequence.ids[: len(rows[r].inputs)] == rows[r].inputs


@given(ROWS)
def test_no_two_sequences_could_share(rows: list[Row]) -> None:
    ids = [sequence.ids for sequence in merge_rows(rows)]
    for i, one in enumerate(ids):
        assert not any(other[: len(one)] == one for j, other in enumerate(ids) if i != j)


def test_a_trial_whose_prompts_extend_each_other_is_one_sequence() -> None:
    prompt, rows = [1, 2, 3], []
    for t in range(15):
        response = [10 + t, 30 + t]
        rows.append(plain_row(prompt, response))
        prompt = [*prompt, *response, 5]
    (sequence,) = merge_rows(rows)
    assert len(sequence.rows) == 15
    assert len(sequence) == len(rows[-1].inputs)


def test_a_prompt_that_does_not_extend_the_history_is_a_sequence_of_its_own() -> None:
    rows = [plain_row([1, 2], [3, 4]), plain_row([1, 9, 3, 4, 5], [6])]
    assert [sequence.rows for sequence in merge_rows(rows)] == [(0,), (1,)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> PolicyModel:
    return PolicyModel(load_base(save_model(tmp_path_factory.mktemp("model")), "float32", CPU))


def gradient(
    model: PolicyModel,
    rows: Sequence[Row],
    *,
    merge: bool,
    strategy: Strategy = "sorted",
    budget: int = 100_000,
    normalise: str = "token",
) -> torch.Tensor:
    """The whole batch's gradient, flat."""
    cfg = ObjectiveConfig(entropy_coef=0.01, normalise=normalise)  # type: ignore[arg-type]
    model.zero_grad(set_to_none=True)
    (shard,), _ = shards(rows, strategy=strategy, budget=budget, merge=merge)
    for mini in shard.minibatches:
        for micro in mini.micro:
            batch = DeviceBatch.of(micro, CPU, normalise)
            loss, _ = share(*model(batch.ids, batch.index, batch.positions, batch.value_at), batch, mini, cfg)
            loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def trial_rows() -> list[Row]:
    return build_rows(groups(3, tasks=3), CreditConfig(scale_by_rms=True)).rows


@pytest.mark.parametrize("normalise", ["token", "sequence", "trial"])
def test_merged_rows_have_the_gradient_of_separate_rows(model: PolicyModel, normalise: str) -> None:
    rows = trial_rows()
    assert len(merge_rows(rows)) < 0.6 * len(rows)
    separate = gradient(model, rows, merge=False, normalise=normalise)
    merged = gradient(model, rows, merge=True, normalise=normalise)
    assert separate.norm() > 0.01
    torch.testing.assert_close(merged, separate, rtol=1e-4, atol=1e-6)


def test_equal_prompts_of_different_trials_share_with_the_same_gradient(model: PolicyModel) -> None:
    rng = random.Random(0)
    prompts = [[rng.randrange(1, VOCABULARY) for _ in range(6)] for _ in range(3)]
    rows = [plain_row(prompts[i % 3], [rng.randrange(1, VOCABULARY)], i, rng.gauss(0, 1)) for i in range(24)]
    assert len(merge_rows(rows)) == 3
    torch.testing.assert_close(
        gradient(model, rows, merge=True), gradient(model, rows, merge=False), rtol=1e-4, atol=1e-6
    )


def test_a_packed_row_has_the_gradient_of_padded_rows(model: PolicyModel) -> None:
    rows = trial_rows()
    torch.testing.assert_close(
        gradient(model, rows, merge=True, strategy="packed"),
        gradient(model, rows, merge=True),
        rtol=1e-4,
        atol=1e-6,
    )


@pytest.mark.parametrize("budget", [16, 64, 300])
def test_the_cut_into_microbatches_does_not_change_the_gradient(model: PolicyModel, budget: int) -> None:
    rows = trial_rows()
    cut = gradient(model, rows, merge=True, budget=budget)
    torch.testing.assert_close(cut, gradient(model, rows, merge=True), rtol=1e-4, atol=1e-6)


def test_a_trial_cut_into_sequences_weighs_as_much_as_one_sequence(model: PolicyModel) -> None:
    prompt, rows = [1, 2, 3], [plain_row([7, 8], [9], trial=1, advantage=-1.0)]
    for t in range(5):
        response = [10 + t, 30 + t]
        rows.append(plain_row(prompt, response))
        prompt = [*prompt, *response, 5]
    one = gradient(model, rows, merge=True, normalise="trial")
    five = gradient(model, rows, merge=False, normalise="trial")
    torch.testing.assert_close(one, five, rtol=1e-4, atol=1e-6)

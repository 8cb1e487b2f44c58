"""Means over a whole update, and their independence of how a trial is cut into sequences."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.credit.assign import Credit, assign
from learner.credit.trial import EpisodeRewards, TrialRewards
from learner.objectives.normalise import Counts, normalised_mean
from learner.objectives.policy import policy_loss

fast = settings(deadline=None, max_examples=40)


def test_a_token_mean_weighs_tokens_a_sequence_mean_sequences_a_trial_mean_trials():
    # Two trials: one of two sequences with 1 and 3 tokens of value 1, one of a single token of value 5.
    values = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [5.0, 0.0, 0.0]])
    mask = torch.tensor([[1, 0, 0], [1, 1, 1], [1, 0, 0]], dtype=torch.bool)
    counts = Counts(tokens=5, sequences=3, trials=2)
    trial_tokens = torch.tensor([[4], [4], [1]])
    assert normalised_mean(values, mask, counts).item() == pytest.approx(9 / 5)
    assert normalised_mean(values, mask, counts, mean="sequence").item() == pytest.approx(7 / 3)
    assert normalised_mean(
        values, mask, counts, mean="trial", unit_tokens=trial_tokens
    ).item() == pytest.approx(3)


@fast
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.randoms(), st.sampled_from(["token", "trial"]))
def test_a_trial_in_k_sequences_has_the_summed_gradient_of_one_sequence(turn_lengths, random, mean):
    advantages = assign(
        [
            TrialRewards((EpisodeRewards(tuple(random.uniform(-1, 1) for _ in turn_lengths)),)),
            TrialRewards((EpisodeRewards((0.25,)),)),
        ],
        Credit(estimator="grpo", norm="mean"),
    )[0].act[0]
    tokens = sum(turn_lengths)
    turns = [
        (torch.randn(n, 3, dtype=torch.float64), a) for n, a in zip(turn_lengths, advantages, strict=True)
    ]
    counts = Counts(tokens=tokens + 7, trials=2)  # another rank holds 7 more tokens of another trial

    def gradient(sequences):
        theta = torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64, requires_grad=True)
        for sequence in sequences:
            new = torch.cat([features @ theta for features, _ in sequence])
            a = torch.cat([torch.full((len(features),), a, dtype=torch.float64) for features, a in sequence])
            mask = torch.ones_like(new, dtype=torch.bool)
            unit_tokens = torch.full_like(new, tokens)
            old = new.detach() - 0.1
            policy_loss(new, old, a, mask, counts, mean=mean, unit_tokens=unit_tokens).backward()
        return theta.grad

    cuts = sorted(random.sample(range(1, len(turns)), random.randrange(len(turns))))
    pieces = [turns[i:j] for i, j in zip([0, *cuts], [*cuts, len(turns)], strict=True)]
    assert torch.allclose(gradient(pieces), gradient([turns]), atol=1e-12)


def test_micro_batches_add_up_to_the_mean_of_the_whole():
    values = torch.arange(6, dtype=torch.float64)
    mask = torch.tensor([True, True, False, True, True, True])
    counts = Counts(tokens=5)
    shares = [normalised_mean(values[i : i + 2], mask[i : i + 2], counts) for i in range(0, 6, 2)]
    assert sum(shares).item() == pytest.approx(values[mask].mean().item())


def test_flat_sequences_give_the_sequence_mean_of_padded_ones():
    padded = torch.tensor([[1.0, 9.0], [2.0, 4.0]])
    mask = torch.tensor([[True, False], [True, True]])
    counts = Counts(tokens=3, sequences=2)
    flat = normalised_mean(
        torch.tensor([1.0, 2.0, 4.0]),
        torch.ones(3, dtype=torch.bool),
        counts,
        mean="sequence",
        unit_tokens=torch.tensor([1, 2, 2]),
    )
    assert flat.item() == normalised_mean(padded, mask, counts, mean="sequence").item() == 2.0


@pytest.mark.parametrize("mean", ["token", "sequence", "trial"])
def test_an_empty_mask_gives_zero_and_a_gradient_of_zeros(mean):
    values = torch.full((2, 3), float("nan"), requires_grad=True)
    mask = torch.zeros(2, 3, dtype=torch.bool)
    share = normalised_mean(values, mask, Counts(0), mean=mean, unit_tokens=torch.zeros(2, 1))
    share.backward()
    assert share.item() == 0.0
    assert torch.equal(values.grad, torch.zeros(2, 3))


def test_trained_tokens_against_a_count_of_zero_are_refused():
    with pytest.raises(ValueError, match="count of tokens is 0"):
        normalised_mean(torch.ones(2), torch.ones(2, dtype=torch.bool), Counts(0))


@pytest.mark.parametrize(
    ("mean", "shape", "message"),
    [
        ("trial", (2, 2), "a trial mean needs unit_tokens"),
        ("sequence", (4,), "a sequence mean needs unit_tokens"),
        ("row", (4,), "'row': token, sequence or trial"),
    ],
)
def test_a_mean_that_cannot_be_taken_is_refused(mean, shape, message):
    with pytest.raises(ValueError, match=message):
        normalised_mean(torch.ones(shape), torch.ones(shape, dtype=torch.bool), Counts(4, 4, 4), mean=mean)

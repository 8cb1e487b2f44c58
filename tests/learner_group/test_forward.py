"""Log-probabilities are those of the distribution that was sampled from."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from agentmem.sampling import Sampling
from learner.forward import (
    Processing,
    UnsupportedSampling,
    entropy_of,
    logits_at,
    logprobs_and_entropy,
    output_layer,
    process,
    token_logprobs,
)
from learner.model import load_base
from tests.learner_group.support import VOCABULARY, save_model

CPU = torch.device("cpu")


def by_hand(logits: list[float], how: Processing) -> list[float]:
    """Probabilities of one distribution, computed without tensors."""
    scaled = [x / how.temperature for x in logits]
    order = sorted(range(len(scaled)), key=lambda i: -scaled[i])
    kept = order[: how.top_k] if how.top_k else order
    weights = {i: math.exp(scaled[i]) for i in kept}
    total = sum(weights.values())
    chosen, mass = [], 0.0
    for i in kept:
        chosen.append(i)
        mass += weights[i] / total
        if mass >= how.top_p:
            break
    rest = sum(weights[i] for i in chosen)
    return [weights[i] / rest if i in chosen else 0.0 for i in range(len(logits))]


@pytest.mark.parametrize(
    "how",
    [
        Processing(),
        Processing(temperature=0.6),
        Processing(top_k=5),
        Processing(top_p=0.8),
        Processing(temperature=0.7, top_p=0.8, top_k=20),
    ],
)
def test_processed_distributions_match_a_computation_by_hand(how: Processing) -> None:
    logits = torch.randn(8, 40, generator=torch.Generator().manual_seed(0)) * 2
    got = torch.softmax(process(logits, how), dim=-1)
    wanted = torch.tensor([by_hand(row.tolist(), how) for row in logits])
    torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-4)
    entropy = -(wanted * wanted.clamp(min=1e-30).log()).sum(-1)
    torch.testing.assert_close(entropy_of(logits, how), entropy, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("how", [Processing(), Processing(0.5), Processing(0.7, 0.8, 5)])
def test_one_softmax_gives_what_two_functions_give(how: Processing) -> None:
    logits = torch.randn(6, 30, generator=torch.Generator().manual_seed(1))
    targets = logits.argmax(-1)
    logp, entropy = logprobs_and_entropy(logits, targets, how)
    torch.testing.assert_close(logp, token_logprobs(logits, targets, how))
    torch.testing.assert_close(entropy, entropy_of(logits, how))


def test_a_token_that_the_cut_now_excludes_has_a_finite_log_prob_and_gradient() -> None:
    logits = torch.tensor([[5.0, 4.0, -3.0]], requires_grad=True)
    logp = token_logprobs(logits, torch.tensor([2]), Processing(top_k=2))
    logp.sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logp).all()
    assert logp.item() < -7
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0, 2] > 0


def test_a_turn_without_sampling_parameters_is_refused() -> None:
    with pytest.raises(UnsupportedSampling, match="no sampling parameters"):
        Processing.of(None)
    assert Processing.of(Sampling(temperature=0.7, top_k=3)) == Processing(0.7, 1.0, 3)


def test_logits_at_chosen_positions_are_those_of_the_whole_pass(tmp_path: Path) -> None:
    model = load_base(save_model(tmp_path), "float32", CPU)
    ids = torch.randint(1, VOCABULARY, (3, 7), generator=torch.Generator().manual_seed(2))
    index = torch.tensor([0, 5, 9, 20])
    with torch.no_grad():
        logits, hidden = logits_at(model, output_layer(model), ids, index)
        whole = model(input_ids=ids).logits.reshape(21, -1)
    torch.testing.assert_close(logits, whole[index], atol=1e-5, rtol=1e-5)
    assert hidden.shape == (3, 7, 32)


def test_padding_on_the_right_changes_nothing(tmp_path: Path) -> None:
    model = load_base(save_model(tmp_path), "float32", CPU)
    ids = torch.randint(1, VOCABULARY, (1, 6), generator=torch.Generator().manual_seed(3))
    padded = torch.cat([ids, torch.zeros(1, 9, dtype=torch.long)], dim=1)
    with torch.no_grad():
        short, _ = logits_at(model, output_layer(model), ids, torch.arange(6))
        long, _ = logits_at(model, output_layer(model), padded, torch.arange(6))
    torch.testing.assert_close(short, long, atol=1e-5, rtol=1e-5)

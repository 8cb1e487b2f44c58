"""Entropy of the next-token distribution, for the bonus and for reports.

H = - Σ_v p_v ln p_v        p = softmax(logits)
"""

from __future__ import annotations

import torch
from torch import Tensor

from learner.objectives.masking import inside, widened
from learner.objectives.normalise import Counts, Mean, normalised_mean


def entropy(logits: Tensor) -> Tensor:
    """H in nats of every distribution: `[..., vocabulary]` -> `[...]`. A logit of -inf can't occur."""
    logp = torch.log_softmax(widened(logits), dim=-1)
    # p ln p -> 0 as p -> 0, but 0 * -inf is NaN; a finite stand-in gives 0 in the value and in the gradient.
    p = logp.exp()
    return -(p * logp.masked_fill(p == 0, 0.0)).sum(dim=-1)


def entropy_bonus(
    entropies: Tensor,
    mask: Tensor,
    counts: Counts,
    *,
    coefficient: float,
    mean: Mean = "token",
    unit_tokens: Tensor | None = None,
) -> Tensor:
    """The term to add to a loss: minus the coefficient times this call's share of the mean entropy."""
    return -coefficient * normalised_mean(
        inside(mask, entropies), mask, counts, mean=mean, unit_tokens=unit_tokens
    )

"""The policy loss: a clipped surrogate with truncated importance weights between sampler and learner.

    ρ = exp(new - old)
    surrogate = w · min(ρ A, clip(ρ, 1-ε_lo, 1+ε_hi) A)                PPO, arXiv 1707.06347
    w = min(exp(old - engine), cap)                        `truncate`  Ionides (2008)
    w = exp(old - engine), 0 above the cap                 `mask`
    w = 1                                                  `none`
    loss = - mean(surrogate)

w corrects for a sampler whose numbers differ from the learner's; it is a constant and carries no gradient.
With `old = engine` the weight is 1 by itself and ρ carries both differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from learner.objectives.masking import bounded, inside, widened
from learner.objectives.normalise import Counts, Mean, normalised_mean

Importance = Literal["truncate", "mask", "none"]


def importance_weights(
    logp_old: Tensor, logp_engine: Tensor, mask: Tensor, *, mode: Importance = "truncate", cap: float = 2.0
) -> Tensor:
    """w of every token, detached; 0 outside the mask.

    A token without an engine log-prob (NaN) was forced, not sampled: there is nothing to correct, and its
    weight is 1. Raises ValueError for an unknown mode or a cap that is not positive.
    """
    if mode not in ("truncate", "mask", "none"):
        raise ValueError(f"unknown importance mode {mode!r}: truncate, mask or none")
    if not cap > 0.0:
        raise ValueError(f"the cap of the importance weights is {cap}: it must be positive")
    with torch.no_grad():
        if mode == "none":
            return mask.to(widened(logp_old).dtype)
        sampled = mask & ~torch.isnan(logp_engine)
        weight = torch.exp(bounded(inside(sampled, logp_old) - inside(sampled, logp_engine)))
        weight = weight.clamp(max=cap) if mode == "truncate" else torch.where(weight > cap, 0.0, weight)
        return inside(mask, weight)


def clipped_surrogate(
    logp_new: Tensor,
    logp_old: Tensor,
    advantage: Tensor,
    mask: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    weights: Tensor | None = None,
) -> Tensor:
    """w · min(ρA, clip(ρ)A) of every token, to be maximised; 0 outside the mask. `weights` None means 1."""
    ratio = torch.exp(bounded(inside(mask, logp_new) - inside(mask, logp_old).detach()))
    a = inside(mask, advantage)
    surrogate = torch.minimum(ratio * a, ratio.clamp(1.0 - clip_low, 1.0 + clip_high) * a)
    return surrogate if weights is None else weights * surrogate


def policy_loss(
    logp_new: Tensor,
    logp_old: Tensor,
    advantage: Tensor,
    mask: Tensor,
    counts: Counts,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    weights: Tensor | None = None,
    mean: Mean = "token",
    unit_tokens: Tensor | None = None,
) -> Tensor:
    """- mean(surrogate), this call's share: a scalar. The mean's parameters are `normalised_mean`'s."""
    surrogate = clipped_surrogate(
        logp_new, logp_old, advantage, mask, clip_low=clip_low, clip_high=clip_high, weights=weights
    )
    return -normalised_mean(surrogate, mask, counts, mean=mean, unit_tokens=unit_tokens)


@dataclass(frozen=True, slots=True)
class PolicySums:
    """Sums over the trained tokens of a call, for reports: 0-d, detached, to be added up and divided once.

    `ratio` is Σρ; `clipped` counts tokens at which the clip is active (it binds, and in the direction of A).
    """

    tokens: Tensor
    ratio: Tensor
    clipped: Tensor


@torch.no_grad()
def policy_sums(
    logp_new: Tensor,
    logp_old: Tensor,
    advantage: Tensor,
    mask: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> PolicySums:
    """What to report of a surrogate: number of tokens, sum of the ratios, number of clipped tokens."""
    ratio = torch.exp(bounded(inside(mask, logp_new) - inside(mask, logp_old)))
    a = inside(mask, advantage)
    clipped = ((ratio > 1.0 + clip_high) & (a > 0)) | ((ratio < 1.0 - clip_low) & (a < 0))
    return PolicySums(tokens=mask.sum(), ratio=inside(mask, ratio).sum(), clipped=clipped.sum())

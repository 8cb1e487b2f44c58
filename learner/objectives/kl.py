"""KL terms: to a reference policy, and between sampler and learner.

    k3 = exp(ref - new) - (ref - new) - 1        J. Schulman, "Approximating KL Divergence" (2020)

k3 is an estimate of KL(new || ref) from tokens sampled by `new`: unbiased, never negative, 0 where the two
agree.
"""

from __future__ import annotations

import torch
from torch import Tensor

from learner.objectives.masking import bounded, inside


def k3(logp_new: Tensor, logp_ref: Tensor, mask: Tensor) -> Tensor:
    """The k3 estimate at every token (nats), differentiable in `logp_new`; 0 outside the mask."""
    difference = bounded(inside(mask, logp_ref).detach() - inside(mask, logp_new))
    # expm1, because exp(x) - x - 1 is rounding noise, of either sign, for the small x of a nearby policy.
    return torch.expm1(difference) - difference


@torch.no_grad()
def mismatch_sum(logp_engine: Tensor, logp_old: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Σ(engine - old) over the sampled tokens (nats) and their number, both 0-d: add up, divide once.

    The mean, `mismatch_kl`, estimates KL(engine || old): how far the sampler's numbers are from the learner's
    for the same weights. Tokens without an engine log-prob were forced and do not count.
    """
    sampled = mask & ~torch.isnan(logp_engine)
    return (inside(sampled, logp_engine) - inside(sampled, logp_old)).sum(), sampled.sum()

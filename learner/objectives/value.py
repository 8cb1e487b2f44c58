"""PPO's value loss, plain or clipped (arXiv 1707.06347 and the clip of OpenAI's PPO implementation).

plain      ½ (V - target)²
clipped    ½ max((V - target)², (V_old + clip(V - V_old, -ε, ε) - target)²)
"""

from __future__ import annotations

import torch
from torch import Tensor

from learner.objectives.masking import inside
from learner.objectives.normalise import Counts, normalised_mean


def value_loss(
    values: Tensor,
    targets: Tensor,
    mask: Tensor,
    count: float,
    *,
    values_old: Tensor | None = None,
    clip: float | None = None,
) -> Tensor:
    """This call's share of the mean value loss: a scalar, in squared units of a return.

    The mask is True where a value is read (the last prompt token of each act turn); `count` is their number
    in the whole update. `clip` in the unit of a return, None for the plain loss; clipping needs `values_old`.
    """
    v, target = inside(mask, values), inside(mask, targets).detach()
    error = (v - target).square()
    if clip is not None:
        if values_old is None:
            raise ValueError("a clipped value loss needs the values at the start of the update")
        v_old = inside(mask, values_old).detach()
        near = v_old + (v - v_old).clamp(-clip, clip)
        error = torch.maximum(error, (near - target).square())
    return normalised_mean(0.5 * error, mask, Counts(count))

"""Keep what lies outside a mask out of values and gradients."""

from __future__ import annotations

import torch
from torch import Tensor

MAX_LOG_RATIO = 20.0
"""Bound of a log-ratio before `exp` (nats): e^20 is far beyond any clip and far below float32's overflow,
where an advantage of 0 would give 0 * inf = NaN. Beyond it the ratio is constant and has no gradient."""


def inside(mask: Tensor, values: Tensor, fill: float = 0.0) -> Tensor:
    """`values` where the mask is True, `fill` elsewhere, in float32 at least.

    Applied to the *inputs* of an equation. Multiplying its result by the mask instead would keep NaN * 0 =
    NaN, in the gradient too.
    """
    return torch.where(mask, widened(values), fill)


def widened(values: Tensor) -> Tensor:
    """Half precision as float32, anything else as it is."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def bounded(log_ratio: Tensor) -> Tensor:
    """A log-ratio kept within ±MAX_LOG_RATIO."""
    return log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)

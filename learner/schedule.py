"""The learning rate as a pure function of the update's number: a resumed run needs no scheduler state."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["constant", "linear", "cosine"]


def lr_factor(update: int, *, updates: int, warmup: int, schedule: Schedule, min_ratio: float) -> float:
    """Factor in (0, 1] on the peak learning rate for update number `update` (from 0) of `updates`.

    The first `warmup` updates rise linearly to 1; then the schedule falls to `min_ratio`, which the last
    update and any beyond it have (`constant` stays at 1). A warm-up never takes more than half of the
    updates.
    """
    warmup = min(warmup, updates // 2)
    if update < warmup:
        return (update + 1) / (warmup + 1)
    if schedule == "constant":
        return 1.0
    done = min(1.0, (update - warmup) / max(1, updates - 1 - warmup))
    if schedule == "linear":
        return 1.0 - (1.0 - min_ratio) * done
    return min_ratio + (1.0 - min_ratio) * 0.5 * (1.0 + math.cos(math.pi * done))

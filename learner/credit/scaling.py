"""What a batch does to its advantages before the loss: one common scale, and no rows that teach nothing.

A / rms(A) with rms = sqrt(mean A²) over all rows (turns) of the batch that have an advantage, zeros included.
One scale for the whole batch keeps the relative sizes of groups, which dividing each group by its own std
does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from learner.credit.trial import TrialAdvantages


def rms(values: Iterable[float]) -> float:
    """Root mean square of the finite values; 0 when there are none."""
    squares = [value * value for value in values if math.isfinite(value)]
    return math.sqrt(math.fsum(squares) / len(squares)) if squares else 0.0


def divide_by_rms(
    batch: Sequence[TrialAdvantages | None],
) -> tuple[list[TrialAdvantages | None], float]:
    """The trials of a whole batch with their advantages divided by the batch's rms, and that rms.

    A batch without any signal (rms 0) comes back as it is. Value targets are in the unit of returns and stay.
    """
    scale = rms(row for trial in batch if trial is not None for row in trial.rows())
    if scale == 0.0:
        return list(batch), scale
    return [
        None
        if trial is None
        else TrialAdvantages(
            act=tuple(tuple([a / scale for a in turns]) for turns in trial.act),
            reflect=tuple([a / scale for a in trial.reflect]),
            value_targets=trial.value_targets,
        )
        for trial in batch
    ], scale


def trainable_rows(advantages: Sequence[float], tolerance: float = 0.0) -> list[int]:
    """Indices of the rows that give a gradient: finite and beyond `tolerance` from zero.

    Only for losses without a term that every row feeds (KL, entropy, value): those want the zero rows too.
    """
    return [i for i, a in enumerate(advantages) if math.isfinite(a) and abs(a) > tolerance]

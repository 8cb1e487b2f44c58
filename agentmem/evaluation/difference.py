"""Differences of shares, with their uncertainty: over the trials of two arms, and over seeds.

`difference` is Newcombe's hybrid score interval for two independent binomial shares (Statistics in Medicine
17, 1998, method 10), made of the two Wilson intervals. It holds for the weights that were evaluated: it knows
nothing of how another seed of training would have come out. `over_seeds` is Student's interval for the mean
of one difference per seed; with few seeds it is wide, and rightly so.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from agentmem.evaluation.pass_at_k import Share

_T_975 = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622)
"""Student's 97.5 % quantiles for 1, 2, … degrees of freedom."""
MOST_SEEDS = len(_T_975) + 1


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of shares with its 95 % interval."""

    value: float
    low: float
    high: float


def difference(a: Share, b: Share) -> Difference:
    """a − b for two independent shares, each with its Wilson interval. All in [-1, 1]."""
    value = a.value - b.value
    below = math.hypot(a.value - a.low, b.high - b.value)
    above = math.hypot(a.high - a.value, b.value - b.low)
    return Difference(value, value - below, value + above)


def over_seeds(differences: Sequence[float]) -> Difference | None:
    """Mean and 95 % interval over seeds; None for fewer than two or more than `MOST_SEEDS` of them."""
    n = len(differences)
    if not 2 <= n <= MOST_SEEDS:
        return None
    mean = statistics.fmean(differences)
    half = _T_975[n - 2] * statistics.stdev(differences) / math.sqrt(n)
    return Difference(mean, mean - half, mean + half)

"""Learned abstention for looked-up hints: below which similarity it is better to say nothing.

On training tasks that were played with the looked-up hint and without, the threshold is the one with the best
mean reward if hints are given at cosines of at least the threshold; of equally good ones the highest, which
gives the fewest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Played:
    """A training task: how near its looked-up hint was, and the rewards with it and without."""

    cosine: float
    with_hint: float
    without: float


def threshold(tasks: Sequence[Played]) -> float:
    """The least cosine at which a hint is given; infinite if none ever pays.

    Raises ValueError for no task, or a number that isn't finite.
    """
    if not tasks:
        raise ValueError("no task was played: a threshold can't be learned")
    for task in tasks:
        if not all(map(math.isfinite, (task.cosine, task.with_hint, task.without))):
            raise ValueError(f"{task}: must be finite")
    best, gain, found = 0.0, 0.0, math.inf
    ordered = sorted(tasks, key=lambda task: -task.cosine)
    for i, task in enumerate(ordered):
        gain += task.with_hint - task.without
        last_of_equals = i + 1 == len(ordered) or ordered[i + 1].cosine < task.cosine
        if last_of_equals and gain > best:
            best, found = gain, task.cosine
    return found

"""p@k: the share of trials solved within their first k episodes (LaMer, arXiv 2512.16848), with its interval.

A trial that failed for reasons of infrastructure is no trial here: it is left out of numerator and
denominator. The interval is Wilson's for a binomial share (1927): unlike p ± z·se it stays within [0, 1] and
keeps a width at 0 and at 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z_95 = 1.959963984540054
"""Standard normal quantile of a two-sided 95 % interval."""


@dataclass(frozen=True, slots=True)
class Share:
    """A binomial share of `n` trials with its interval, all in [0, 1]."""

    value: float
    low: float
    high: float
    n: int


def wilson(successes: int, n: int, z: float = Z_95) -> Share:
    """The share successes/n with Wilson's interval. Raises ValueError for n = 0 or successes outside 0..n."""
    if n <= 0 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} trials give no share")
    p = successes / n
    spread = z * z / n
    centre = (p + spread / 2.0) / (1.0 + spread)
    half = z * math.sqrt(p * (1.0 - p) / n + spread / (4.0 * n)) / (1.0 + spread)
    # At 0 and at n the bound is exact; rounding would leave 1e-17 of it.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Share(value=p, low=low, high=high, n=n)


def pass_at_k(
    successes: Sequence[Sequence[bool] | None], k_max: int | None = None, z: float = Z_95
) -> list[Share]:
    """p@1 … p@k_max; `successes[i]` says of each episode of trial i whether it succeeded, None if it failed.

    A trial ends with its success, so that it may have fewer than k episodes. `k_max` is the largest number of
    episodes by default; pass it when comparing arms, whose trials may all have ended early. Raises ValueError
    when no trial is left, or for a k_max below 1.
    """
    trials = [trial for trial in successes if trial is not None]
    if not trials:
        raise ValueError(f"none of {len(successes)} trials finished: there is no p@k to report")
    if k_max is None:
        k_max = max(1, *map(len, trials))
    if k_max < 1:
        raise ValueError(f"k_max is {k_max}: p@k needs at least one episode")
    return [wilson(sum(any(trial[:k]) for trial in trials), len(trials), z) for k in range(1, k_max + 1)]

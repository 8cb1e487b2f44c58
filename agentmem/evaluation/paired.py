"""Two evaluations compared task by task: what differs between tasks cancels out.

The difference is the mean over the common tasks of (mean of b's trials − mean of a's trials). Its interval is
the percentile interval of a paired bootstrap over tasks (Efron 1979), seeded, so that the same lines give the
same interval. Beside it stands the exact two-sided sign test over the tasks that differ; with one trial a
task and arm that is McNemar's exact test. With few tasks that differ the bootstrap is too narrow (with none
it has no width at all): then read the test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agentmem.evaluation.lines import TrialLine, by_task

RESAMPLES = 10_000
_AT_ONCE = 2_000_000
"""Numbers drawn in one go."""


@dataclass(frozen=True, slots=True)
class Difference:
    """b − a over `tasks` tasks with its 95 % interval; b is better in `wins` of them, worse in `losses`."""

    value: float
    low: float
    high: float
    p: float
    """Of the sign test."""
    tasks: int
    wins: int
    losses: int


def sign_test(wins: int, losses: int) -> float:
    """Exact two-sided p-value: twice the tail of Binomial(wins + losses, ½), at most 1. No pair gives 1."""
    if wins < 0 or losses < 0:
        raise ValueError(f"{wins} wins and {losses} losses: must be at least 0")
    n, tail = wins + losses, min(wins, losses)
    return min(1.0, 2 * sum(math.comb(n, i) for i in range(tail + 1)) / (1 << n))


def paired(
    a: Mapping[str | int, float], b: Mapping[str | int, float], *, seed: int = 0, level: float = 0.95
) -> Difference:
    """The difference over the tasks that both have. Raises ValueError if there is none."""
    common = [task for task in a if task in b]
    if not common:
        raise ValueError("the two have no task in common")
    d = np.array([b[task] - a[task] for task in common])
    n = len(d)
    rng = np.random.default_rng(seed)
    means = np.empty(RESAMPLES)
    step = max(1, _AT_ONCE // n)
    for start in range(0, RESAMPLES, step):
        stop = min(RESAMPLES, start + step)
        means[start:stop] = d[rng.integers(0, n, size=(stop - start, n))].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    wins, losses = int((d > 0).sum()), int((d < 0).sum())
    return Difference(float(d.mean()), float(low), float(high), sign_test(wins, losses), n, wins, losses)


def per_task(lines: Sequence[TrialLine], value: Callable[[TrialLine], float]) -> dict[str | int, float]:
    """The mean of a value over each task's trials."""
    return {task: sum(map(value, own)) / len(own) for task, own in by_task(lines).items()}


def success_difference(a: Sequence[TrialLine], b: Sequence[TrialLine], k: int) -> Difference:
    """p@k of b minus p@k of a, over their common tasks. Raises ValueError if there is none."""
    return paired(per_task(a, lambda line: line.within(k)), per_task(b, lambda line: line.within(k)))


def memory_gap(
    with_memory: Sequence[TrialLine], without: Sequence[TrialLine], episodes: int
) -> list[Difference]:
    """p@k with memory minus p@k without, k = 1 … `episodes`. Near 0 at every k, the memory isn't read."""
    return [success_difference(without, with_memory, k) for k in range(1, episodes + 1)]

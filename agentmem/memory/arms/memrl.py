"""MemRL-style retrieval: each memory has a learned value, and rank is half similarity, half value.

    Q ← Q + α·(r − Q)                α = 0.3, r: reward of a trial that was given the memory; Q is 0 at first
    rank = ½·z(cosine) + ½·z(Q)      z: over the candidates, (x − mean) / std; 0 where all are equal

Candidates are the `k` nearest memories with a cosine of at least `gate`; with none of them nothing is given.
The baseline of Mem-π's evaluation (algorithms.md, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from agentmem.memory.arms.shelf import Found

ALPHA, GATE, CANDIDATES = 0.3, 0.5, 10


class ValuedMemories:
    """The values of a shelf's records, by their places."""

    def __init__(self, size: int, *, alpha: float = ALPHA, gate: float = GATE) -> None:
        if not 0 < alpha <= 1:
            raise ValueError(f"alpha is {alpha}: must be in (0, 1]")
        self.values: npt.NDArray[np.float64] = np.zeros(size)
        self.alpha, self.gate = alpha, gate

    def choose(self, candidates: Sequence[Found]) -> Found | None:
        """The candidate with the best rank, of equal ones the nearest; None if none is near enough."""
        near = [found for found in candidates if found.cosine >= self.gate]
        if not near:
            return None
        cosines = np.array([found.cosine for found in near])
        ranks = 0.5 * _standardised(cosines) + 0.5 * _standardised(self.values[[f.place for f in near]])
        # Of two candidates that differ both ways the ranks are equal but for rounding.
        return near[int(np.lexsort((-cosines, -np.round(ranks, 9)))[0])]

    def learn(self, place: int, reward: float) -> None:
        """A trial that was given the memory at `place` ended with this reward. Raises ValueError for a reward
        that isn't finite."""
        if not math.isfinite(reward):
            raise ValueError(f"a reward of {reward}: must be finite")
        self.values[place] += self.alpha * (reward - self.values[place])


def _standardised(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    spread = numbers.std()
    if spread <= 1e-12:
        return np.zeros_like(numbers)
    result: npt.NDArray[np.float64] = (numbers - numbers.mean()) / spread
    return result

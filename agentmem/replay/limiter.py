"""How many samples a table gives for each insert, as data (after Reverb's rate limiters).

With `diff = inserts * samples_per_insert - samples` (inserts and samples in groups):

- a group may be sampled while the table holds `min_size` groups and `diff - 1 >= least`,
- a group may be inserted while the table holds fewer than `min_size`, or
  `diff + samples_per_insert <= most`,

where `least` and `most` lie `error_buffer` below and above `min_size * samples_per_insert`.

In the `online` table each group is sampled once, so `samples_per_insert` is 1 and `diff` is the number of
ready groups: `Limiter(error_buffer=8)` lets at most 9 wait. Commits above it wait as for bytes, unless the
learner waits for groups. In the `replay` table a draw above it isn't given (the update has fewer replayed
groups), and a trained group above it is freed instead of being kept: the learner is on both sides and must
not wait for itself.
"""

from __future__ import annotations

import math

import msgspec

from agentmem.failures import ConfigError

_NO_BOUND = 1e15
"""Lua counts groups in doubles; as text it stays a plain number."""


class Limiter(msgspec.Struct, frozen=True, kw_only=True):
    """The rate limiter of one table. The default doesn't limit."""

    samples_per_insert: float = 1.0
    min_size: int = 1
    """Groups that the table must hold before any is sampled."""
    error_buffer: float = math.inf
    """How far samples may run ahead of the ratio, and inserts."""

    def __post_init__(self) -> None:
        if not 0 < self.samples_per_insert < math.inf:
            raise ConfigError(f"limiter: samples_per_insert is {self.samples_per_insert}: must be > 0")
        if self.min_size < 1:
            raise ConfigError(f"limiter: min_size is {self.min_size}: must be >= 1")
        if not self.error_buffer >= max(1.0, self.samples_per_insert):
            raise ConfigError(
                f"limiter: error_buffer is {self.error_buffer}: must be >= 1 and >= samples_per_insert "
                f"({self.samples_per_insert}), or neither an insert nor a sample may ever be possible"
            )

    @property
    def least(self) -> float:
        """`diff` after a sample, at least."""
        return max(-_NO_BOUND, self.min_size * self.samples_per_insert - self.error_buffer)

    @property
    def most(self) -> float:
        """`diff` after an insert, at most."""
        return min(_NO_BOUND, self.min_size * self.samples_per_insert + self.error_buffer)

    def for_insert(self) -> list[float]:
        """What the scripts that insert are told."""
        return [self.samples_per_insert, self.min_size, self.most]

    def for_sample(self) -> list[float]:
        """What the scripts that sample are told."""
        return [self.samples_per_insert, self.min_size, self.least]

"""Weight versions, and how far apart two of them are when the run has gone back to a checkpoint.

A version number names one set of weights for ever. When the learner goes back to a checkpoint, numbers above
the checkpoint's may have been published already, so its weights get a new number, one above the highest ever
published, and numbering goes on from there: versions only grow, nothing that is keyed by a version (prefix
caches, snapshots) can be stale, and tokens of the weights that were given up are known as such.

The age of a token is the number of updates between its weights and the present ones, so a jump in the
numbers doesn't count. Of weights that were given up it is counted by way of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Lineage:
    """The present version and how it came about."""

    version: int = 0
    jumps: tuple[tuple[int, int], ...] = ()
    """(version of a checkpoint, its new number), oldest first."""

    @classmethod
    def of(cls, version: int, jumps: Sequence[Sequence[int]] = ()) -> Lineage:
        """From what a checkpoint holds."""
        return cls(version, tuple((int(old), int(new)) for old, new in jumps))

    def stored(self) -> dict[str, Any]:
        """For a checkpoint (JSON); the arguments of `of`."""
        return {"version": self.version, "jumps": [list(jump) for jump in self.jumps]}

    def trained(self, version: int) -> Lineage:
        """After an update."""
        return replace(self, version=version)

    def restored(self, published: int) -> Lineage:
        """How to go on from this checkpoint's when versions up to `published` have been given out."""
        if published <= self.version:
            return self
        return Lineage(published + 1, (*self.jumps, (self.version, published + 1)))

    def age(self, version: int) -> int:
        """How many updates the weights of `version` are behind the present ones."""
        age, present = 0, self.version
        for old, new in reversed(self.jumps):
            if version >= new:
                break
            age += present - new
            present = old
            if version > old:  # given up
                return age + version - old
        return age + present - version

    def oldest(self, age: int) -> int:
        """The oldest version of at most this age (0: the present number alone)."""
        present = self.version
        for old, new in reversed(self.jumps):
            if age == 0 or present - age >= new:
                break
            age -= present - new
            present = old
        return present - age

"""Which of the nearest records is given: the retrieval arms' rules. Pure.

| rule | gives |
|---|---|
| `Nearest` | the nearest record's hint, always (RAG, k = 1) |
| `Gated` | the same where it is at least as near as a threshold that was learnt (`gate`) |
| `Valued` | the one with the best rank of similarity and learnt value (`memrl`) |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentmem.memory.arms.memrl import CANDIDATES, ValuedMemories
from agentmem.memory.arms.shelf import Found


class Rule(Protocol):
    """`candidates`: how many of the nearest it wants to see."""

    @property
    def candidates(self) -> int: ...

    def choose(self, found: Sequence[Found]) -> Found | None:
        """Of the nearest ones, the nearest first; None abstains."""
        ...


@dataclass(frozen=True, slots=True)
class Nearest:
    """See the module's docstring."""

    candidates: int = 1

    def choose(self, found: Sequence[Found]) -> Found | None:
        """See Rule."""
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Gated:
    """See the module's docstring. An infinite threshold never gives any."""

    threshold: float
    candidates: int = 1

    def choose(self, found: Sequence[Found]) -> Found | None:
        """See Rule."""
        return found[0] if found and found[0].cosine >= self.threshold else None


@dataclass(frozen=True, slots=True)
class Valued:
    """See the module's docstring."""

    memories: ValuedMemories
    candidates: int = CANDIDATES

    def choose(self, found: Sequence[Found]) -> Found | None:
        """See Rule."""
        return self.memories.choose(found)

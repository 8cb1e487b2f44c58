"""Whether a memory policy still decides: how often it abstains, and on which tasks (Mem-π). Pure.

What counts is the policy's own choice: in training, too, where the group's structure forces the branch, it
is asked which it would have taken. A task is *easy* if the agent solves it without a hint at least half the
time, else *hard*. A policy that abstains almost always, or almost never, has collapsed: there is hardly a
gradient that leads back. The alert `AgentMemAbstentionCollapsed` has the same limits.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

COLLAPSED = 0.02
"""A share of abstentions below this, or above one minus it."""
LEAST = 100
"""Decisions before their share says anything."""
EASY = 0.5
BINS = 10
"""Of the histogram of p(generate): [0, 0.1), [0.1, 0.2), …, [0.9, 1]."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that a memory policy was asked for."""

    abstains: bool
    p_generate: float | None = None
    alone: float | None = None
    """Share of trials without a hint that solved the task; None: it wasn't tried."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Of some choices. A share of none is None."""

    asked: int = 0
    abstains: float | None = None
    easy: int = 0
    abstains_easy: float | None = None
    hard: int = 0
    abstains_hard: float | None = None
    p_generate: list[int] = []
    """Choices by tenths; empty if none tells its probability."""


def health_of(choices: Iterable[Choice]) -> Health:
    """See `Health`."""
    every = list(choices)
    easy = [c for c in every if c.alone is not None and c.alone >= EASY]
    hard = [c for c in every if c.alone is not None and c.alone < EASY]
    told = [c.p_generate for c in every if c.p_generate is not None]
    bins = [0] * BINS if told else []
    for p in told:
        bins[bin_of(p)] += 1
    return Health(
        asked=len(every),
        abstains=_share(every),
        easy=len(easy),
        abstains_easy=_share(easy),
        hard=len(hard),
        abstains_hard=_share(hard),
        p_generate=bins,
    )


def bin_of(p: float) -> int:
    """The tenth that a probability lies in."""
    return min(int(p * BINS), BINS - 1)


def _share(choices: list[Choice]) -> float | None:
    return sum(c.abstains for c in choices) / len(choices) if choices else None


class AbstentionAlarm:
    """Judges the choices made since it last judged, as soon as there are `LEAST` of them."""

    def __init__(self, least: int = LEAST, limit: float = COLLAPSED) -> None:
        self._least, self._limit = least, limit
        self._seen = (0, 0)
        self.collapsed = False

    def look(self, generated: int, abstained: int) -> tuple[str, str] | None:
        """Totals so far. What happened and its detail, if the policy collapsed or recovered just now."""
        asked = generated - self._seen[0] + abstained - self._seen[1]
        if asked < self._least:
            return None
        share = (abstained - self._seen[1]) / asked
        self._seen = (generated, abstained)
        before, self.collapsed = self.collapsed, not self._limit <= share <= 1 - self._limit
        if self.collapsed == before:
            return None
        what = "abstention collapsed" if self.collapsed else "abstention recovered"
        return what, (
            f"the memory policy abstains in {share:.1%} of its last {asked} decisions "
            f"({'outside' if self.collapsed else 'within'} {self._limit:.0%} to {1 - self._limit:.0%})"
        )

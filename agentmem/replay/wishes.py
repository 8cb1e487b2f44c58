"""What somebody wishes of a run while it goes on, and what the run says of itself: the way between a driver
and commands on any machine that reaches the server.

- A *wish* is a number for a kind of part (`agents`, `engines.agent`, …). It stands until another replaces it
  or takes it back, also over a driver's restart; only a restart with another configured number ends it.
- A *report* is the driver's own summary, opaque here. Its age is told by the server's clock, so that the
  clocks of other machines don't matter.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from agentmem.replay import lua
from agentmem.replay.table import Table

_SEQUENCE, _CONFIGURED = b"#", b"configured:"


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """All wishes that stand. `sequence` grows with each that was made or taken back."""

    sequence: int = 0
    numbers: dict[str, int] = {}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver said last, and how long ago."""

    said: bytes
    age_s: float


class WishTable(Table):
    """Wishes and reports of a run. Both are written to a full server, too."""

    def wish(self, numbers: Mapping[str, int | None]) -> int:
        """Wish for numbers of kinds; None takes a wish back. Returns the sequence number."""
        words = [word for kind, n in numbers.items() for word in (kind, "" if n is None else n)]
        return int(self._run(lua.WISH, *words))

    def wishes(self) -> Wishes:
        """Those that stand."""
        found = self.server.call(lambda: self.server.client.hgetall(self.keys("wish")))
        return Wishes(
            sequence=int(found.pop(_SEQUENCE, 0)),
            numbers={k.decode(): int(v) for k, v in found.items() if not k.startswith(_CONFIGURED)},
        )

    def configured(self, numbers: Mapping[str, int]) -> list[str]:
        """A driver starts with these numbers. Returns the kinds whose wishes they have ended."""
        words = [word for pair in numbers.items() for word in pair]
        return [kind.decode() for kind in self._run(lua.CONFIGURED, *words)]

    def report(self, said: bytes) -> None:
        """The driver says how things are."""
        self._run(lua.REPORT, said)

    def reported(self) -> Report | None:
        """What it said last; None if it never did."""
        found = self._run(lua.REPORTED)
        return Report(said=found[0], age_s=int(found[1]) / 1000) if found else None

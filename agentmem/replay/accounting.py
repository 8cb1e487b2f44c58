"""The counters, and the run's small memory: cursors, the end-of-stream flag, dead letters.

Invariant: `counters` is one atomic look at what the server holds, so its identity holds at any moment, also
after any crash: where a ticket is, is read off the structure that holds it.
"""

from __future__ import annotations

import msgspec

from agentmem.replay import lua
from agentmem.replay.structs import Counters, DeadLetter
from agentmem.replay.table import Table

_END_OF_STREAM = "end_of_stream"
_FIELDS = frozenset(Counters.__struct_fields__)


class Accounting(Table):
    """Counters, cursors and flags of a run."""

    def counters(self) -> Counters:
        """All counters at one moment."""
        totals, drops, expired, places = self._run(lua.COUNTERS)
        values = {
            k.decode(): int(v)
            for part in (totals, places)
            for k, v in zip(part[::2], part[1::2], strict=True)
        }
        values["blocked_ms"] = values.get("blocked_ms", 0)
        known = {k: v for k, v in values.items() if k in _FIELDS}
        reasons = {k.decode(): int(v) for k, v in zip(drops[::2], drops[1::2], strict=True)}
        late = {k.decode(): int(v) for k, v in zip(expired[::2], expired[1::2], strict=True) if int(v)}
        return Counters(
            **known,
            blocked_s=values["blocked_ms"] / 1000,
            drops=reasons,
            expired_by_env={k[4:]: n for k, n in sorted(late.items()) if k.startswith("env:")},
            expired_by_length=dict(
                sorted((int(k[7:]), n) for k, n in late.items() if k.startswith("length:"))
            ),
        )

    def set_cursor(self, name: str, value: str | int) -> None:
        """Remember a cursor (tasks handed out, version published, ...). Works on a full server too."""
        self._run(lua.SET_CURSOR, name, value)

    def get_cursor(self, name: str) -> str | None:
        """A remembered cursor, None if there is none."""
        value = self.server.call(lambda: self.server.client.hget(self.keys("cursors"), name))
        return value.decode() if isinstance(value, bytes) else None

    def announce(self, end_of_stream: bool = True) -> None:
        """Tell all agents that no more tickets come (or, with False, that they do again)."""
        self.set_cursor(_END_OF_STREAM, int(end_of_stream))

    def draining(self) -> bool:
        """Has the end of the stream been announced?"""
        return self.get_cursor(_END_OF_STREAM) == "1"

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        """The newest tickets that failed for good, oldest of them first."""
        rows = self.server.call(lambda: self.server.client.lrange(self.keys("dead"), -limit, -1))
        return [msgspec.json.decode(row, type=DeadLetter) for row in rows]

"""The learner's side: complete groups out, oldest first, each consumed once.

Invariants: a group is in exactly one place (open, ready, taken, held, replay, or gone). A taken group is
leased: if the learner dies it is ready again, at its old place. What was consumed after the last checkpoint
can be kept (`hold`) until the checkpoint that includes it is complete (`settle`), or come back (`rewind`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from agentmem.replay import lua
from agentmem.replay.codec import CodecError
from agentmem.replay.connect import MAX_BLOCK_S
from agentmem.replay.structs import Group, Outcome
from agentmem.replay.table import Table, record_fields
from agentmem.trajectory import Trial


class GroupTable(Table):
    """The `online` table."""

    def ready_groups(self) -> int:
        """Complete groups that wait for a learner."""
        return int(self.server.call(lambda: self.server.client.zcard(self.keys("ready"))))

    def take_groups(
        self,
        n: int,
        *,
        at_least: int = 1,
        current_version: int | None = None,
        max_staleness: int | None = None,
        min_version: int | None = None,
        block_s: float = 0.0,
        consumer: str = "learner",
    ) -> list[Group]:
        """Up to `n` ready groups, oldest first, leased to `consumer`; none unless `at_least` are there.

        A group with a token older than `min_version`, or than `current_version - max_staleness`, is dropped
        and counted as expired. While it waits, producers may exceed the byte budget: what they hold back is
        what it waits for. A stored trial that can't be read is set aside and its group goes on without it
        (`min_group`).
        """
        s = self.settings
        end = time.monotonic() + block_s
        while True:
            left = end - time.monotonic()
            reply = self._run(
                lua.TAKE,
                consumer,
                n,
                at_least,
                "" if current_version is None else current_version,
                "" if max_staleness is None else max_staleness,
                "" if min_version is None else min_version,
                int(1000 * s.group_lease_s),
                int(1000 * 2 * MAX_BLOCK_S) if left > 0 else 0,
                s.online_limiter.min_size if s.online_limiter.min_size > 1 else 0,
            )
            groups = self._load(reply, self._set_aside)
            if groups:
                return groups
            if left <= 0:
                return []
            self.server.wait_list(self.keys("wake"), left)

    def renew_groups(self, ids: Sequence[str]) -> int:
        """Start the leases of taken groups anew; returns how many are still leased."""
        return int(self._run(lua.RENEW_GROUPS, int(1000 * self.settings.group_lease_s), *ids))

    def finish_groups(self, ids: Sequence[str], outcome: Outcome | str, *, hold: bool = False) -> int:
        """Count groups as consumed and free their bytes; finishing one again changes nothing.

        Returns the consumption cursor: how many groups the run has consumed. With `hold` the trials stay
        until `settle(cursor)`, and `rewind(cursor)` makes later ones ready again.
        """
        s = self.settings
        limit = s.replay_limiter.for_insert()
        args = (Outcome(outcome).value, int(hold), s.replay_groups, *limit, *ids)
        return int(self._run(lua.FINISH, *args)[1])

    def settle(self, cursor: int) -> int:
        """A checkpoint includes all consumption up to `cursor`: let held groups go. Returns their number."""
        s = self.settings
        return int(self._run(lua.SETTLE, cursor, s.replay_groups, *s.replay_limiter.for_insert()))

    def rewind(self, cursor: int) -> int:
        """The newest checkpoint ends at `cursor`: held groups consumed later are ready again."""
        return int(self._run(lua.REWIND, cursor))

    def return_groups(self, ids: Sequence[str]) -> int:
        """Give taken groups back unconsumed."""
        return int(self._run(lua.RETURN, "", *ids))

    def recover_groups(self, consumer: str = "learner") -> int:
        """Give back all that `consumer` had taken: what a restarted learner calls first."""
        return int(self._run(lua.RETURN, consumer))

    def _load(self, described: Sequence[Any], damaged: Callable[[str, str, str], bool]) -> list[Group]:
        """Groups with their trials, from script replies {id, size, seq, {ticket, record, ...}}.

        `damaged(group, ticket, what)` is told of a payload that can't be read, and says whether the group
        goes on without it.
        """
        rows = [(g[0].decode(), int(g[1]), int(g[2]), record_fields(g[3])) for g in described]
        payloads = self.read_payloads([(m[0], m[1], m[4]) for row in rows for m in row[3]])
        groups = []
        for gid, size, sequence, members in rows:
            trials: list[Trial] = []
            alive = True
            for ticket, *_ in members:
                payload = next(payloads)
                try:
                    if isinstance(payload, CodecError):
                        raise payload
                    trials.append(self.codec.unpack(payload, Trial))
                except CodecError as error:
                    alive = alive and damaged(gid, ticket, str(error))
            if not alive:
                continue
            trials.sort(key=lambda t: t.member)
            lows = [m[2] for m in members if m[2] is not None]
            highs = [m[3] for m in members if m[3] is not None]
            groups.append(
                Group(
                    id=gid,
                    size=size,
                    sequence=sequence,
                    trials=tuple(trials),
                    payload_bytes=sum(m[1] for m in members),
                    versions=(min(lows), max(highs)) if lows and highs else None,
                )
            )
        return groups

    def _set_aside(self, gid: str, ticket: str, what: str) -> bool:
        return bool(self._run(lua.QUARANTINE, gid, ticket, self.settings.min_group, what))

"""The replay buffer: one facade over tickets, groups, evaluations, replay, tips,
wishes and accounting.

Synchronous and batch-first: every method takes and returns lists and makes one or few round trips. Any number
of processes hold one for the same run; threads may share one. A dead server is waited for, up to a deadline.
"""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from agentmem.failures import ReplayError
from agentmem.replay import lua
from agentmem.replay.accounting import Accounting
from agentmem.replay.codec import Codec
from agentmem.replay.connect import Server
from agentmem.replay.evals import EvalTable
from agentmem.replay.keys import PATTERN, Keys, run_of
from agentmem.replay.replayed import ReplayTable
from agentmem.replay.table import Settings
from agentmem.replay.tickets import TicketTable
from agentmem.replay.tips import TipTable
from agentmem.replay.wishes import WishTable
from agentmem.trajectory import SCHEMA_VERSION


def runs_on(server: Server) -> list[str]:
    """The runs that have a buffer there, by name."""
    keys = server.call(lambda: list(server.client.scan_iter(PATTERN, 1000)))
    return sorted(run_of(key.decode()) for key in keys)


MOST_NAMED = 5
"""Runs that an error names: the last ones by name."""


class ReplayBuffer(TicketTable, ReplayTable, EvalTable, TipTable, WishTable, Accounting):
    """The buffer of one run on one server. `**settings` are the fields of `Settings`.

    `fingerprint` names the recipe: a run that was made by another one is refused. A dead server is waited for
    until `deadline_s`, a silent one until `socket_timeout_s` more. Raises ReplayError if the
    server can't serve (unreachable, wrong password, evicting, too old), or if the run has another schema or
    fingerprint. With `only_look` opening writes nothing, and a run that has no buffer there is an error.
    """

    def __init__(
        self,
        url: str,
        run: str,
        *,
        fingerprint: str = "",
        deadline_s: float = 30.0,
        socket_timeout_s: float = 10.0,
        settings: Settings | None = None,
        only_look: bool = False,
        **overrides: Any,
    ) -> None:
        base = settings or Settings()
        self.settings = msgspec.structs.replace(base, **overrides) if overrides else base
        self.run, self.fingerprint = run, fingerprint
        self.keys = Keys(run)
        self.codec = Codec(self.settings.compression)
        self._nonce = secrets.token_hex(8)
        self.server = Server(url, deadline_s=deadline_s, socket_timeout_s=socket_timeout_s)
        self.server.check()
        self._open(only_look)

    def _open(self, only_look: bool) -> None:
        found = self._run(lua.OPEN, SCHEMA_VERSION, self.fingerprint, int(only_look))
        schema, fingerprint = (v.decode() if v else "" for v in found)
        if not schema:
            others = [name for name in runs_on(self.server) if name != self.run]
            there = f"; it holds {', '.join(others[-MOST_NAMED:])}" if others else ""
            raise ReplayError(f"replay server {self.server.shown} holds no buffer of run {self.run}{there}")
        if schema != str(SCHEMA_VERSION):
            raise ReplayError(
                f"run {self.run} has a buffer of schema version {schema}: this program reads "
                f"{SCHEMA_VERSION} (finish it with the program that wrote it, or start a new run)"
            )
        if self.fingerprint and fingerprint != self.fingerprint:
            raise ReplayError(f"run {self.run} has a buffer made by {fingerprint}, not by {self.fingerprint}")

    def close(self) -> None:
        """Close the connections; claims and groups keep their leases."""
        self.server.close()

    def __enter__(self) -> ReplayBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

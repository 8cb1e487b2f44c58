"""What the parts of the buffer share: the server, the run's keys, the codec, and the settings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from agentmem.failures import ConfigError, ReplayError
from agentmem.replay import lua
from agentmem.replay.codec import Codec, CodecError, join
from agentmem.replay.connect import Arg, Server
from agentmem.replay.keys import Keys

READ_BATCH_BYTES = 2 << 20
"""Payloads are read in batches of about this size: larger ones only grow the server's output buffers."""
INSERT_BATCH_BYTES = 1 << 20
BLOCKED = 2
"""An insert script's reply for an item that must wait for bytes."""
BLOCKED_POLL_S = 0.5
"""A blocked producer asks again after this, also without a signal that there is room."""

I = TypeVar("I")  # noqa: E741


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a run uses its buffer; the same for all its processes."""

    byte_budget: int = 2 << 30
    """Producers wait when training data (trials, progress, replay) would take more."""
    lease_s: float = 60.0
    """A claim that isn't renewed for so long is given to another actor."""
    group_lease_s: float = 600.0
    """The same for groups that a learner has taken."""
    min_group: int = 1
    """A group with fewer stored trials than this fails as a whole."""
    retry_budget: int = 3
    """Retries of one ticket after infrastructure failures."""
    max_kills: int = 3
    """Workers that one ticket may take down before it is a dead letter."""
    blocked_limit_s: float = 3600.0
    """A producer that has waited so long for bytes raises."""
    replay_groups: int = 0
    """Trained groups kept for the replay table (0: none)."""
    max_samples: int = 4
    """Draws of one group from the replay table."""
    staleness_decay: float = 0.9
    """Weight of a replay group: this to the power of its age in versions."""
    compression: int = 1
    """zstd level; 0 stores bare msgpack."""

    def __post_init__(self) -> None:
        for name in ("byte_budget", "lease_s", "group_lease_s", "min_group", "max_kills", "blocked_limit_s"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"replay.{name} is {getattr(self, name)}: must be > 0")
        for name in ("retry_budget", "replay_groups", "compression"):
            if getattr(self, name) < 0:
                raise ConfigError(f"replay.{name} is {getattr(self, name)}: must be >= 0")
        if self.max_samples < 1:
            raise ConfigError(f"replay.max_samples is {self.max_samples}: must be >= 1")
        if not 0 < self.staleness_decay <= 1:
            raise ConfigError(f"replay.staleness_decay is {self.staleness_decay}: must be in (0, 1]")


class Table:
    """A part of the buffer. All parts of a facade share one of each of these."""

    server: Server
    keys: Keys
    codec: Codec
    settings: Settings

    def _run(self, script: str, *args: Arg) -> Any:
        return self.server.script(script, self.keys.prefix, args)

    def _insert(
        self, script: str, head: Sequence[Arg], items: Sequence[tuple[I, list[Arg], int]], producer: str
    ) -> list[int]:
        """Send items (value, arguments, bytes) in batches; wait while the server or the budget has no room.

        A reply of `BLOCKED` is asked again. Returns the other replies, in order. Raises
        ReplayError after `blocked_limit_s`.
        """
        results: dict[int, int] = {}
        waiting = list(range(len(items)))
        blocked_since: float | None = None
        told = time.monotonic()
        while waiting:
            batch: list[int] = []
            size = 0
            for index in waiting:
                if batch and size + items[index][2] > INSERT_BATCH_BYTES:
                    break
                batch.append(index)
                size += items[index][2]
            now = time.monotonic()
            waited_ms = 0 if blocked_since is None else int(1000 * (now - told))
            args: list[Arg] = [self.settings.byte_budget, producer, waited_ms, *head]
            for index in batch:
                args.extend(items[index][1])
            replies = self.server.insert_script(script, self.keys.prefix, args)
            if replies is not None:
                told = now
                for index, reply in zip(batch, replies, strict=True):
                    if reply != BLOCKED:
                        results[index] = reply  # noqa: PERF403
            rest = [index for index in waiting if index not in results]
            if len(rest) == len(waiting):
                blocked_since = now if blocked_since is None else blocked_since
                if replies is None:
                    self._note_full(producer)
                if now - blocked_since > self.settings.blocked_limit_s:
                    raise ReplayError(
                        f"blocked on buffer for {now - blocked_since:.0f} s: the budget of "
                        f"{self.settings.byte_budget} bytes is used up and the learner frees nothing"
                    )
                self.server.wait_list(self.keys("space"), BLOCKED_POLL_S)
            waiting = rest
        return [results[index] for index in range(len(items))]

    def _insert_when_room(self, script: str, args: Sequence[Arg]) -> Any:
        """A small insert: it isn't held to the byte budget, but a server without memory is waited for."""
        end = time.monotonic() + self.settings.blocked_limit_s
        while True:
            reply = self.server.insert_script(script, self.keys.prefix, args)
            if reply is not None:
                return reply
            if time.monotonic() > end:
                raise ReplayError(f"the server has had no memory for {self.settings.blocked_limit_s:.0f} s")
            self.server.wait_list(self.keys("space"), BLOCKED_POLL_S)

    def _note_full(self, producer: str) -> None:
        """The server itself is full: stand where those wait whom the budget blocks."""
        self._run(lua.NOTE_BLOCKED, producer)

    def _read(self, wanted: Sequence[tuple[str, int, int]]) -> list[bytes | CodecError]:
        """Payloads of (ticket, bytes, chunks), in order; a damaged one is its CodecError."""
        out: list[bytes | CodecError] = []
        start = 0
        while start < len(wanted):
            end, size = start, 0
            while end < len(wanted) and (end == start or size + wanted[end][1] <= READ_BATCH_BYTES):
                size += wanted[end][1]
                end += 1
            keys = [self.keys.payload(ticket, chunks) for ticket, _, chunks in wanted[start:end]]
            flat = [key for group in keys for key in group]
            found = self.server.command("MGET", *flat)
            place = 0
            for group in keys:
                try:
                    out.append(join(found[place : place + len(group)]))
                except CodecError as error:
                    out.append(error)
                place += len(group)
            start = end
        return out


def record_fields(flat: Sequence[bytes]) -> list[tuple[str, int, int | None, int | None, int]]:
    """{ticket, record, ...} of a reply -> (ticket, bytes, lowest version, highest version, chunks)."""
    out = []
    for ticket, record in zip(flat[::2], flat[1::2], strict=True):
        size, low, high, chunks = record.split(b":")
        out.append(
            (ticket.decode(), int(size), int(low) if low else None, int(high) if high else None, int(chunks))
        )
    return out

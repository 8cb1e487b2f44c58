"""What the parts of the buffer share: the server, the run's keys, the codec, and the settings."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from agentmem.failures import ConfigError, ReplayError
from agentmem.replay import lua
from agentmem.replay.codec import Codec, CodecError, Payload, join
from agentmem.replay.connect import Server
from agentmem.replay.heap import WORTH_BYTES, keep_large_blocks
from agentmem.replay.keys import Keys
from agentmem.replay.limiter import Limiter
from agentmem.replay.wire import LARGE_BYTES, Arg

READ_BATCH_BYTES = 256 << 10
"""Payloads are decoded in batches of about this size, while the next are on their way."""
INSERT_BATCH_BYTES = 1 << 20
BLOCKED = 2
"""An insert script's reply for an item that must wait for bytes."""
BLOCKED_POLL_S = 0.5
"""A blocked producer asks again after this, also without a signal that there is room."""


class Insert(NamedTuple):
    """One item of an insert script: its arguments, and its payload in chunks."""

    head: list[Arg]
    chunks: list[bytes | memoryview]
    size: int
    exempt: bool = False
    """Never blocked by the budget, so it goes first."""


def _batch(waiting: Sequence[int], items: Sequence[Insert]) -> list[int]:
    """The first of `waiting` that make up about `INSERT_BATCH_BYTES`, at least one."""
    size = 0
    for n, index in enumerate(waiting):
        size += items[index].size
        if n and size > INSERT_BATCH_BYTES:
            return list(waiting[:n])
    return list(waiting)


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
    """Weight of a replay group: this to the power of its age in versions ..."""
    advantage_exponent: float = 0.0
    """... times its priority (mean |advantage|, told by `set_priorities`) to this power; 0: not looked at."""
    tips_per_task: int = 1000
    """Entries of a book of tips; the oldest leave."""
    tip_bytes: int = 256 << 20
    """All books together. Above, the book that was written longest ago goes as a whole. Tips don't count
    against `byte_budget`: nothing would free them, so that they would make producers wait for ever."""
    online_limiter: Limiter = Limiter()
    """How many groups may be ready ahead of the learner."""
    replay_limiter: Limiter = Limiter()
    """How many draws the replay table gives for each group it got."""
    compression: int = 1
    """zstd level; 0 stores bare msgpack."""

    def __post_init__(self) -> None:
        positive = ("byte_budget", "lease_s", "group_lease_s", "min_group", "max_kills", "blocked_limit_s")
        for name in (*positive, "tips_per_task", "tip_bytes"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"replay.{name} is {getattr(self, name)}: must be > 0")
        for name in ("retry_budget", "replay_groups", "compression"):
            if getattr(self, name) < 0:
                raise ConfigError(f"replay.{name} is {getattr(self, name)}: must be >= 0")
        if self.max_samples < 1:
            raise ConfigError(f"replay.max_samples is {self.max_samples}: must be >= 1")
        if not 0 < self.staleness_decay <= 1:
            raise ConfigError(f"replay.staleness_decay is {self.staleness_decay}: must be in (0, 1]")
        if self.advantage_exponent < 0:
            raise ConfigError(f"replay.advantage_exponent is {self.advantage_exponent}: must be >= 0")
        if self.online_limiter.samples_per_insert != 1:
            raise ConfigError(
                f"replay.online_limiter.samples_per_insert is {self.online_limiter.samples_per_insert}: "
                "must be 1, since the online table gives each group once"
            )
        if not 0 < self.staleness_decay <= 1:
            raise ConfigError(f"replay.staleness_decay is {self.staleness_decay}: must be in (0, 1]")


class Table:
    """A part of the buffer. All parts of a facade share one of each of these."""

    server: Server
    keys: Keys
    codec: Codec
    settings: Settings
    _nonce: str
    """Names what this process stages; nobody else does so in a transaction of the same name."""

    def _run(self, script: str, *args: Arg) -> Any:
        return self.server.script(script, self.keys.prefix, args)

    def _insert(self, script: str, head: Sequence[Arg], items: Sequence[Insert], producer: str) -> list[int]:
        """Send items in batches; wait while the server or the budget has no room.

        A reply of `BLOCKED` is asked again. Returns the other replies, in order. Raises ReplayError when
        nothing got in for `blocked_limit_s`.
        """
        results: dict[int, int] = {}
        waiting = sorted(range(len(items)), key=lambda index: not items[index].exempt)
        blocked_since: float | None = None
        told = time.monotonic()
        while waiting:
            # Who is blocked asks with one item, not with all that it has.
            batch = waiting[:1] if blocked_since is not None else _batch(waiting, items)
            now = time.monotonic()
            waited_ms = -1 if blocked_since is None else int(1000 * (now - told))
            args, staged = self._arguments([items[index] for index in batch])
            first: list[Arg] = [self.settings.byte_budget, producer, waited_ms, int(bool(staged)), *head]
            replies = self.server.insert_script(script, self.keys.prefix, [*first, *args], staged)
            if replies is None:
                self._note_full(producer)
                replies = [BLOCKED] * len(batch)
            else:
                told = now
            entered = {i: r for i, r in zip(batch, replies, strict=True) if r != BLOCKED}
            results |= entered
            waiting = [index for index in waiting if index not in entered]
            if len(entered) == len(batch):
                blocked_since = None
            elif entered or blocked_since is None:
                blocked_since = now
            elif now - blocked_since > self.settings.blocked_limit_s:
                bound = self.settings.online_limiter.most
                raise ReplayError(
                    f"blocked on buffer for {now - blocked_since:.0f} s: the budget of "
                    f"{self.settings.byte_budget} bytes is used up "
                    + (f"or {bound:g} groups are ready " if bound < 1e9 else "")
                    + "and the learner frees nothing"
                )
            if not entered:
                self.server.wait_list(self.keys("space"), BLOCKED_POLL_S)
        return [results[index] for index in range(len(items))]

    def _arguments(self, batch: Sequence[Insert]) -> tuple[list[Arg], dict[str, bytes | memoryview]]:
        """The items' arguments; large payloads are staged under names that stand in their place."""
        staged: dict[str, bytes | memoryview] = {}
        stage = sum(item.size for item in batch) >= LARGE_BYTES
        args: list[Arg] = []
        for item in batch:
            args += item.head
            for chunk in item.chunks:
                if item.size >= WORTH_BYTES:
                    keep_large_blocks()
                if stage:
                    name = f"{self.keys.prefix}s:{self._nonce}:{len(staged)}"
                    staged[name] = chunk
                    args.append(name)
                else:
                    args.append(chunk)
        return args, staged

    def _insert_when_room(self, script: str, args: Sequence[Arg]) -> Any:
        """A small insert: it isn't held to the byte budget, but a server without memory is waited for."""
        end = time.monotonic() + self.settings.blocked_limit_s
        while True:
            reply = self.server.insert_script(script, self.keys.prefix, args, {})
            if reply is not None:
                return reply
            if time.monotonic() > end:
                raise ReplayError(f"the server has had no memory for {self.settings.blocked_limit_s:.0f} s")
            self.server.wait_list(self.keys("space"), BLOCKED_POLL_S)

    def _note_full(self, producer: str) -> None:
        """The server itself is full: stand where those wait whom the budget blocks."""
        self._run(lua.NOTE_BLOCKED, producer)

    def read_payloads(self, wanted: Sequence[tuple[str, int, int]]) -> Iterator[Payload | CodecError]:
        """Payloads of (ticket, bytes, chunks), in order; a damaged one is its CodecError.

        A payload is valid until the next one is asked for.
        """
        parts = read_batches([size for _, size, _ in wanted])
        keys = [[self.keys.payload(ticket, chunks) for ticket, _, chunks in wanted[a:b]] for a, b in parts]
        flat = [[key for group in batch for key in group] for batch in keys]
        sizes = [sum(size for _, size, _ in wanted[a:b]) for a, b in parts]
        if any(size >= WORTH_BYTES for _, size, _ in wanted):
            keep_large_blocks()
        for batch, found in zip(keys, self.server.fetch(flat, sizes), strict=True):
            place = 0
            for group in batch:
                try:
                    yield join(found[place : place + len(group)])
                except CodecError as error:
                    yield error
                place += len(group)


def read_batches(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of about `READ_BATCH_BYTES` each, at least one payload long."""
    out, start, total = [], 0, 0
    for n, size in enumerate(sizes):
        if n > start and total + size > READ_BATCH_BYTES:
            out.append((start, n))
            start, total = n, 0
        total += size
    return [*out, (start, len(sizes))] if sizes else []


def record_fields(flat: Sequence[bytes]) -> list[tuple[str, int, int | None, int | None, int]]:
    """{ticket, record, ...} of a reply -> (ticket, bytes, lowest version, highest version, chunks)."""
    out = []
    for ticket, record in zip(flat[::2], flat[1::2], strict=True):
        size, low, high, chunks, _ = record.split(b":", 4)
        out.append(
            (ticket.decode(), int(size), int(low) if low else None, int(high) if high else None, int(chunks))
        )
    return out

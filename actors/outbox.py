"""Answers that wait to be fetched, by client: the other side of `batch_client`.

An answer is handed out once; if the caller of `collect` has died meanwhile, so has its interest.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Protocol

FORGET_CLIENT_S = 600.0
"""A client that hasn't called for so long is gone; its answers are dropped."""


class Finished(Protocol):
    """What has finished at one moment."""

    @property
    def samples(self) -> Sequence[Any]: ...

    @property
    def failures(self) -> Sequence[Any]: ...


class Outbox:
    """What has finished for one client and hasn't been collected yet."""

    def __init__(self) -> None:
        self.seen = time.monotonic()
        self._ready = asyncio.Event()
        self._samples: list[Any] = []
        self._failures: list[Any] = []

    def put(self, finished: Finished) -> None:
        """Add to what waits."""
        self._samples.extend(finished.samples)
        self._failures.extend(finished.failures)
        self._ready.set()

    async def collect(self, max_wait_s: float) -> tuple[list[Any], list[Any]]:
        """All that has finished, answers and failures; nothing if nothing has within `max_wait_s`."""
        if not self._ready.is_set():
            try:
                await asyncio.wait_for(self._ready.wait(), max_wait_s)
            except TimeoutError:
                self.seen = time.monotonic()
        taken = self._samples, self._failures
        self._samples, self._failures = [], []
        self._ready.clear()
        return taken


class Outboxes:
    """One for each client that has called lately."""

    def __init__(self) -> None:
        self._boxes: dict[str, Outbox] = {}

    def of(self, client_id: str) -> Outbox:
        """The client's, which has just called."""
        now = time.monotonic()
        box = self._boxes.get(client_id)
        if box is None:
            for gone in [name for name, old in self._boxes.items() if now - old.seen > FORGET_CLIENT_S]:
                del self._boxes[gone]
            box = self._boxes[client_id] = Outbox()
        box.seen = now
        return box

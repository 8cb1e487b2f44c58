"""Ctrl-C and SIGTERM as a flag that the run looks at: the first ends it cleanly, a second one at once.

Install it after `ray.init()`, which puts a SIGTERM handler of its own in place.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any, Self

INTERRUPTED_EXIT = 130
"""The exit status of a command that was interrupted."""


class Interrupted(Exception):
    """The user or the cluster asked the run to end."""


class InterruptFlag:
    """Context manager. `requested` is set by the first signal; the second raises KeyboardInterrupt."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._asked_at = 0.0
        self._before: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether the run shall end."""
        return self._event.is_set()

    def seconds_since(self) -> float:
        """How long ago the run was asked to end; 0 if it wasn't."""
        return time.monotonic() - self._asked_at if self._event.is_set() else 0.0

    def check(self) -> None:
        """Raise Interrupted if the run shall end."""
        if self._event.is_set():
            raise Interrupted

    def wait(self, seconds: float) -> None:
        """Pause, but raise Interrupted as soon as the run shall end."""
        if self._event.wait(seconds):
            raise Interrupted

    def request(self) -> None:
        """Ask the run to end, as a signal would."""
        self._asked_at = time.monotonic()
        self._event.set()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._event.is_set():
            raise KeyboardInterrupt
        self.request()

    def install(self) -> None:
        """Take SIGINT and SIGTERM over (again, after a library took them)."""
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.signal(number, self._handle)
            self._before.setdefault(number, before)

    def __enter__(self) -> Self:
        self.install()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

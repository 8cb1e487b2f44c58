"""Ctrl-C and SIGTERM as a flag that the run looks at: the first ends it cleanly, a second one at once.

Install it after `ray.init()`, which puts a SIGTERM handler of its own in place.

What a run does between the signal and its end: the update under way is finished, then a checkpoint is
written, each within its part of the time. A terminal's user is not to wait long; a job that Ray stops has
the time that was asked for with it (`RAY_JOB_STOP_WAIT_TIME_S`), before it is killed.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any, Self

from agentmem.failures import ConfigError

INTERRUPTED_EXIT = 130
"""The exit status of a command that was interrupted."""
SAVED_BY_S = 9.0
"""Since a Ctrl-C: the last checkpoint is written by then, or given up."""
LEAST_SAVE_S = 5.0
"""What is kept of it for the checkpoint, unless checkpoints are known to take longer."""
STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"
UNASKED_STOP_WAIT_S = 3.0
"""What Ray gives a job that didn't ask."""
LAST_BREATH = 0.1
"""Share of a job's time that is left for its last lines."""
_IN_A_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Ray sets it for the driver of a job."""


def saved_by_s(environment: Mapping[str, str] | None = None) -> float:
    """Seconds from the signal until the last checkpoint must be there. Raises ConfigError."""
    given = os.environ if environment is None else environment
    if STOP_WAIT not in given and _IN_A_JOB not in given:
        return SAVED_BY_S
    text = given.get(STOP_WAIT, f"{UNASKED_STOP_WAIT_S:g}")
    if not text.isdecimal():
        raise ConfigError(f"{STOP_WAIT} is {text!r}: whole seconds are needed")
    return (1 - LAST_BREATH) * int(text)


class Interrupted(Exception):
    """The user or the cluster asked the run to end."""


class InterruptFlag:
    """Context manager. `requested` is set by the first signal; the second raises KeyboardInterrupt."""

    def __init__(self) -> None:
        self.saved_by_s = saved_by_s()
        self._save_s = 0.0
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

    def save_took(self, seconds: float) -> None:
        """How long a checkpoint takes: twice as much of the time is kept for the last one."""
        self._save_s = max(self._save_s, seconds)

    def may_finish(self) -> bool:
        """Whether an update under way may go on: there is still more time than the last checkpoint needs."""
        kept = max(min(LEAST_SAVE_S, 0.6 * self.saved_by_s), 2 * self._save_s)
        return self.seconds_since() <= self.saved_by_s - kept

    def save_s(self) -> float:
        """What is left for the last checkpoint."""
        return max(0.0, self.saved_by_s - self.seconds_since())

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

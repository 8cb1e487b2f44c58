"""When a client may ask again: the pace of its requests, and the pause before another attempt. Pure.

Times are seconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


class Pace:
    """Hands out starting times: at most `per_minute` in any minute, evenly spread, none during a pause."""

    def __init__(self, per_minute: float | None) -> None:
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._next = float("-inf")
        self._paused_until = float("-inf")

    def reserve(self, now: float) -> float:
        """The time at which one more request may start; it is taken."""
        start = max(now, self._next, self._paused_until)
        self._next = start + self._gap
        return start

    def pause(self, until: float) -> None:
        """No request before this time, for what was reserved already see `held_until`."""
        self._paused_until = max(self._paused_until, until)

    def held_until(self, start: float) -> float:
        """When a request that was to start at `start` may start by now."""
        return max(start, self._paused_until)


def backoff(attempt: int, asked_s: float | None, chance: float) -> float:
    """Seconds before the next attempt, after `attempt` of them (from 1) failed.

    They double from one to sixty; `chance` in [0, 1) takes off up to half, so that clients that failed
    together don't come back together. What the server asks for (`asked_s`) is waited for at least.
    """
    pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(attempt - 1, 16)) * (1 - chance / 2)
    return max(pause, asked_s or 0.0)


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that a server asks to wait (`Retry-After`: a number, or a date); None if it doesn't, or not in
    a way that can be read. Names in lower case."""
    said = headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(said)) if float(said) < float("inf") else None
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(said)
    except ValueError:
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())

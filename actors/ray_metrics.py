"""Metrics through Ray: every node's agent exports them, with the prefix `ray_`, beside Ray's own.

- Ray forgets a gauge that isn't set again within two report intervals, so a thread sets all of them again
  each `BEAT_S`; series of a process that has ended vanish by themselves.
- Ray's histograms round their sums; the facade's counters beside them are exact.
- Ray has no counter at 0: such a series appears with its first increase. Its texts are ASCII.
"""

from __future__ import annotations

import logging
import threading
import unicodedata
from typing import Any

from agentmem.telemetry import METRICS, Definition, Kind

log = logging.getLogger(__name__)

BEAT_S = 5.0
"""Half of Ray's default report interval."""
PREFIX = "ray_"
"""What Ray puts before every name."""

Tags = tuple[tuple[str, str], ...]


class RayBackend:
    """A backend of the facade. Ray must have been started; `close` ends the beat."""

    def __init__(self, beat_s: float = BEAT_S) -> None:
        from ray.util import metrics

        self._series: dict[str, Any] = {}
        for definition in METRICS.values():
            given: dict[str, Any] = {
                "name": definition.name,
                "description": _ascii(definition.help),
                "tag_keys": ("run", *definition.tags),
            }
            if definition.kind is Kind.HISTOGRAM:
                made: Any = metrics.Histogram(boundaries=list(definition.buckets), **given)
            elif definition.kind is Kind.COUNTER:
                made = metrics.Counter(**given)
            else:
                made = metrics.Gauge(**given)
            self._series[definition.name] = made
        self._gauges: dict[tuple[str, Tags], float] = {}
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._beat_s = beat_s
        self._thread = threading.Thread(target=self._beat, name="metrics-beat", daemon=True)
        self._thread.start()

    def count(self, definition: Definition, amount: float, tags: dict[str, str]) -> None:
        if amount > 0:
            self._series[definition.name].inc(amount, tags=tags)

    def gauge(self, definition: Definition, value: float, tags: dict[str, str]) -> None:
        with self._lock:
            self._gauges[definition.name, tuple(sorted(tags.items()))] = value
            self._series[definition.name].set(value, tags=tags)

    def observe(self, definition: Definition, value: float, tags: dict[str, str]) -> None:
        self._series[definition.name].observe(value, tags=tags)

    def close(self) -> None:
        """No more beats: what was set vanishes after two report intervals."""
        self._end.set()
        self._thread.join(timeout=5)

    def _beat(self) -> None:
        while not self._end.wait(self._beat_s):
            with self._lock:
                for (name, tags), value in self._gauges.items():
                    try:
                        self._series[name].set(value, tags=dict(tags))
                    except Exception:  # an exporter in trouble is no reason to end a run
                        log.exception("gauge %s", name)


def _ascii(text: str) -> str:
    """EMPO² -> EMPO2."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()

"""The facade: `count`, `total`, `gauge`, `observe`. Names and tags are checked against the definitions.

Totals that live elsewhere (Redis, an actor) are *reported as totals*: the facade exports the increase since
the last report, so a counter never runs twice for the same work. Beside each histogram stands a counter
of its sum, exact where a backend rounds.
"""

from __future__ import annotations

from typing import Protocol

from agentmem.telemetry.definitions import METRICS, Definition, Kind

Tags = tuple[tuple[str, str], ...]


class Backend(Protocol):
    """Where metrics go."""

    def count(self, definition: Definition, amount: float, tags: dict[str, str]) -> None: ...

    def gauge(self, definition: Definition, value: float, tags: dict[str, str]) -> None: ...

    def observe(self, definition: Definition, value: float, tags: dict[str, str]) -> None: ...


class Metrics:
    """Metrics of one run over a backend. Without a backend, nothing is exported."""

    def __init__(self, run: str, backend: Backend | None) -> None:
        self._run = run
        self._backend = backend
        self._totals: dict[tuple[str, Tags], float] = {}

    @property
    def url(self) -> str:
        """Where the backend serves them; empty if it has no endpoint of its own."""
        return str(getattr(self._backend, "url", ""))

    def _resolve(self, name: str, kind: Kind, tags: dict[str, str]) -> tuple[Definition, dict[str, str]]:
        definition = METRICS.get(name)
        if definition is None or definition.kind is not kind:
            raise KeyError(f"no {kind} named {name} is defined in agentmem/telemetry/definitions.py")
        if set(tags) != set(definition.tags):
            raise KeyError(f"{name} has the tags {definition.tags}, found {tuple(tags)}")
        return definition, {"run": self._run, **tags}

    def count(self, name: str, amount: float = 1.0, **tags: str) -> None:
        """Add to a counter. Adding 0 makes the series visible, so that its first increase is one."""
        definition, full = self._resolve(name, Kind.COUNTER, tags)
        if self._backend is not None and amount >= 0:
            self._backend.count(definition, amount, full)

    def total(self, name: str, value: float, **tags: str) -> None:
        """Report a counter's total; a total that fell (its source restarted) counts from zero again."""
        key = (name, tuple(sorted(tags.items())))
        before = self._totals.get(key, 0.0)
        self._totals[key] = value
        self.count(name, value - before if value >= before else value, **tags)

    def gauge(self, name: str, value: float, **tags: str) -> None:
        """Set a gauge."""
        definition, full = self._resolve(name, Kind.GAUGE, tags)
        if self._backend is not None:
            self._backend.gauge(definition, value, full)

    def observe(self, name: str, value: float, **tags: str) -> None:
        """Add an observation to a histogram and to the counter of its sum."""
        definition, full = self._resolve(name, Kind.HISTOGRAM, tags)
        if self._backend is not None:
            self._backend.observe(definition, value, full)
            self._backend.count(METRICS[definition.sum_name], value, full)

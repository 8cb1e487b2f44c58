"""From `metrics.jsonl` to sinks, beside a run or after it.

A run writes its file and knows nothing of sinks; a thread reads on where it stopped and hands new records to
each. So a sink that is slow, unreachable or broken costs the run nothing, and loses nothing: `sinks.json`
says how many lines each sink has had, and the next try, the next resume or `agentmem publish` goes on there.
An update that a resumed run makes again is published again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from agentmem.app.reporting.records import read_records
from agentmem.app.reporting.rundir import RunDir
from agentmem.app.sinks.sink import PACKAGES, Sink, check, open_sink, scalars_of
from agentmem.failures import AgentMemError, ConfigError

log = logging.getLogger(__name__)

LOOK_S = 2.0
"""Between two looks at the file."""
PATIENCE_S, MOST_PATIENCE_S = 5.0, 300.0
"""After a failure the sink is left alone for so long, twice as long after each further one."""
LAST_S = 15.0
"""The run's end waits no longer for sinks."""


@dataclass(slots=True)
class _Feed:
    """One sink, and how far it is."""

    name: str
    sent: int
    sink: Sink | None = None
    error: str = ""
    patience_s: float = PATIENCE_S
    not_before: float = field(default=0.0)


class Publisher:
    """Publishes while its context is open; at its end, the rest. What didn't arrive then is told to `report`,
    a line a sink.
    """

    def __init__(
        self, run: RunDir, names: Sequence[str], config: Mapping[str, Any], report: Callable[[str], None]
    ) -> None:
        self._run, self._config, self._report = run, config, report
        self._cursor = run.path / "sinks.json"
        sent = self._read_cursor()
        self._feeds = [_Feed(name, sent.get(name, 0)) for name in names]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="sinks", daemon=True)

    def __enter__(self) -> Self:
        if self._feeds:
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        if self._feeds:
            self._thread.join(LAST_S)
        total = len(read_records(self._run.metrics_path))
        for feed in self._feeds:
            if feed.sent < total or feed.error:
                why = feed.error or f"not done within {LAST_S:g} s"
                self._report(
                    f"{feed.name}: {total - feed.sent} of {total} records not published ({why}); "
                    f"`agentmem publish {self._run.name} --to {feed.name}` goes on"
                )

    def _follow(self) -> None:
        while not self._ended.wait(LOOK_S):
            self._publish(last=False)
        self._publish(last=True)

    def _publish(self, *, last: bool) -> None:
        records = read_records(self._run.metrics_path)
        for feed in self._feeds:
            if feed.sent > len(records):  # a resumed run dropped what it makes again
                feed.sent = len(records)
                self._write_cursor()
            if not last and time.monotonic() < feed.not_before:
                continue
            try:
                if feed.sink is None and feed.sent < len(records):
                    feed.sink = open_sink(feed.name, self._run.name, self._config, self._run.path)
                for record in records[feed.sent :]:
                    step, scalars = scalars_of(record)
                    if scalars and feed.sink is not None:
                        feed.sink.publish(step, scalars)
                    feed.sent += 1
                    self._write_cursor()
                if last and feed.sink is not None:
                    feed.sink.close()
                feed.error, feed.patience_s = "", PATIENCE_S
            except Exception as error:  # the library's own, of any kind: a sink must not end a run
                self._failed(feed, error)

    def _failed(self, feed: _Feed, error: Exception) -> None:
        feed.error = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
        feed.not_before = time.monotonic() + feed.patience_s
        log.warning("sink %s: %s; next try in %g s", feed.name, feed.error, feed.patience_s)
        feed.patience_s = min(2 * feed.patience_s, MOST_PATIENCE_S)

    def _read_cursor(self) -> dict[str, int]:
        if not self._cursor.is_file():
            return {}
        return msgspec.json.decode(self._cursor.read_bytes(), type=dict[str, int])

    def _write_cursor(self) -> None:
        sent = {**self._read_cursor(), **{feed.name: feed.sent for feed in self._feeds}}
        part = self._cursor.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(sent))
        part.replace(self._cursor)


def publish_run(which: str, names: Sequence[str]) -> list[str]:
    """`agentmem publish`: give sinks what they haven't had of a run; what was done, a line a sink.

    Raises ConfigError for an unknown run or sink, or one without its package; AgentMemError if something
    didn't arrive.
    """
    import yaml

    for name in names:
        if name not in PACKAGES:
            raise ConfigError(f"--to is '{name}': {', '.join(PACKAGES)} are allowed")
    check(names)
    run = RunDir.find(which)
    left: list[str] = []
    with Publisher(run, names, yaml.safe_load(run.config_path.read_text(encoding="utf-8")), left.append):
        pass
    if left:
        raise AgentMemError("; ".join(left))
    total = len(read_records(run.metrics_path))
    return [f"{name} has the {total} records of {run.name}" for name in names]

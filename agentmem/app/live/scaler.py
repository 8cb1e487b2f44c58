"""Makes the numbers of parts what they are wished to be: by `agentmem scale`, else by the autoscaler, else by
the configuration.

- A wish (`agentmem.replay.wishes`) holds a kind until it is taken back; the autoscaler leaves it alone.
- Kinds change side by side, each one change at a time; a newer number waits for the change under way, unless
  that still waits for room.
- What can't be met (no room, newcomers that don't come) leaves the old number standing, is told in a note,
  and isn't tried again before another number is wished for. The run goes on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from actors.autoscaler import Memory, bounds_of, decide, loads
from actors.parts import ENGINES, parts_of, resource_of, scalable
from agentmem.app.live.joining import alone
from agentmem.app.live.monitor import Monitor
from agentmem.app.live.system import System
from agentmem.app.reporting.status import KindStatus
from agentmem.config import RunConfig
from agentmem.config.scaling import AutoscaleConfig
from agentmem.failures import Failure
from agentmem.telemetry import Metrics

log = logging.getLogger(__name__)

LOOK_S = 1.0


@dataclass(slots=True)
class _Change:
    """A change of one kind that is under way."""

    number: int
    task: asyncio.Task[None]
    stop: threading.Event
    """Set: don't wait for room any more, since another number is wished for."""


class Scaler:
    """See the module's docstring. `event` is told what happened, in two parts."""

    def __init__(
        self,
        config: RunConfig,
        system: System,
        monitor: Monitor,
        metrics: Metrics,
        event: Callable[[str, str], None],
    ) -> None:
        self._system, self._monitor, self._metrics, self._event = system, monitor, metrics, event
        self._configured = scalable(config)
        self._parts = parts_of(config)
        self._rules = config.scaling.autoscale or AutoscaleConfig()
        self._bounds = bounds_of(self._rules)
        self._memory: dict[str, Memory] = {}
        self._decided: dict[str, int] = {}
        """What the autoscaler wants."""
        self._why: dict[str, str] = {}
        self._wished: dict[str, int] = {}
        self._changes: dict[str, _Change] = {}
        self._refused: dict[str, int] = {}
        self._notes: dict[str, str] = {}
        self._loads: dict[str, float] = {}
        self._looked = time.monotonic()
        self.sequence = 0
        """Of the wishes that were seen."""
        for kind in self._configured:
            for reason in ("up", "down", "refused"):
                metrics.count("agentmem_scaling_total", 0, role=role_of(kind), reason=reason)

    async def run(self) -> None:
        """For ever."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(LOOK_S)
        finally:
            for change in self._changes.values():
                change.stop.set()
                change.task.cancel()

    async def look(self) -> None:
        """Read wishes, decide, begin what is to be changed."""
        wishes = await asyncio.to_thread(self._system.buffer.wishes)
        if wishes.sequence != self.sequence:
            self._refused.clear()
            self._notes.clear()
        self._wished = {k: n for k, n in wishes.numbers.items() if k in self._configured}
        self.sequence = wishes.sequence
        if time.monotonic() - self._looked >= self._rules.every_s:
            self._looked = time.monotonic()
            self._decide()
        for kind, number in {**self._configured, **self._decided, **self._wished}.items():
            self._aim(kind, number)
        self._export()

    def kinds(self) -> dict[str, KindStatus]:
        """How things stand, by kind."""
        running, desired, leaving = self._system.running(), self._system.desired(), self._system.leaving()
        return {
            kind: KindStatus(
                running=running[kind],
                desired=desired[kind],
                leaving=leaving.get(kind, 0),
                wished=self._wished.get(kind),
                load=self._loads.get(kind),
                changing=kind in self._changes and not self._changes[kind].task.done(),
                note=self._notes.get(kind, ""),
                refused=kind in self._refused,
            )
            for kind in self._configured
        }

    def _decide(self) -> None:
        signals = self._monitor.meter.take(self._monitor.learner_wait)
        self._loads = loads(signals, self._rules)
        desired = self._system.desired()
        for kind, bounds in self._bounds.items():
            if kind in self._wished:
                self._decided.pop(kind, None)
                continue
            size = self._decided.get(kind, desired[kind])
            if kind in self._refused:  # nothing came of it: go on from what there is
                size = desired[kind]
                del self._refused[kind]
            load = self._loads.get(kind)
            self._decided[kind], self._memory[kind] = decide(
                size, load, self._memory.get(kind, Memory()), self._rules, bounds,
                learner_wait=signals.learner_wait,
            )  # fmt: skip
            told = "unknown" if load is None else f"{load:.2f}"
            self._why[kind] = f"autoscaler: load {told}, the learner waits {signals.learner_wait:.0%}"

    def _aim(self, kind: str, number: int) -> None:
        change = self._changes.get(kind)
        if change is not None and not change.task.done():
            if change.number != number:
                change.stop.set()
            return
        if change is not None:
            change.task.result()  # a bug of ours; what couldn't be met is a note
            del self._changes[kind]
        if number == self._system.desired()[kind] or self._refused.get(kind) == number:
            return
        stop = threading.Event()
        task = asyncio.ensure_future(self._change(kind, number, stop))
        self._changes[kind] = _Change(number, task, stop)

    async def _change(self, kind: str, number: int, stop: threading.Event) -> None:
        before = self._system.desired()[kind]
        why = "wished for" if kind in self._wished else self._why.get(kind, "as configured")
        try:
            if number > before and not alone():
                await self._find_room(kind, number, stop)
            self._notes[kind] = f"{before} -> {number}: under way"
            await self._system.scale(kind, number)
        except Exception as error:
            if stop.is_set():
                return
            line = Failure.of(error).what.splitlines()[0]
            log.warning("scale: %s", line, exc_info=error)
            self._refused[kind] = number
            self._notes[kind] = f"{before} -> {number}: {line}"
            self._metrics.count("agentmem_scaling_total", role=role_of(kind), reason="refused")
            self._event("scale", f"{kind} stay {before}, not {number} ({why}): {line}")
        else:
            self._notes.pop(kind, None)
            direction = "up" if number > before else "down"
            self._metrics.count("agentmem_scaling_total", role=role_of(kind), reason=direction)
            self._event("scale", f"{kind}: {before} -> {number} ({why})")

    async def _find_room(self, kind: str, number: int, stop: threading.Event) -> None:
        desired = self._system.desired()

        def say(text: str) -> None:
            self._notes[kind] = f"{desired[kind]} -> {number}: {text}"
            log.info("scale: %s: %s", kind, text)

        new = [self._parts[kind].request(number - desired[kind])]
        await self._system.find_room(new, {**desired, kind: number}, say, stop)

    def _export(self) -> None:
        desired: dict[str, int] = {}
        for kind, number in self._system.desired().items():
            desired[role_of(kind)] = desired.get(role_of(kind), 0) + number
        for role, number in desired.items():
            self._metrics.gauge("agentmem_desired_members_count", number, role=role)
        highest: dict[str, float] = {}
        for kind, load in self._loads.items():
            highest[role_of(kind)] = max(highest.get(role_of(kind), 0.0), load)
        for role, load in highest.items():
            self._metrics.gauge("agentmem_load_ratio", load, role=role)


def role_of(kind: str) -> str:
    """The tag `role` of a kind: engines of all policies are one role."""
    return "engine" if kind.startswith(ENGINES) else resource_of(kind)

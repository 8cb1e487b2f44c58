"""What goes on beside the loop, whatever the loop waits for: supervision, counters, Ctrl-C, the watchdog.

Supervision and counting go on in the background whatever the loop does, so that a part which doesn't answer
holds nobody up, and what the loop waits for is repaired meanwhile. What they raise comes out of `look`, which
the loop calls at least every quarter of a second while it waits.

Failures end the run with the exit status of their class (`agentmem.failures`): 4 infrastructure, 5 the
replay server, 7 no progress, 8 a spent restart budget, 9 numerics, 1 a bug (also of an environment). The last
line of the output is the cause.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from agentmem.app.live.interrupt import InterruptFlag
from agentmem.app.live.monitor import Monitor
from agentmem.app.live.system import System
from agentmem.config import RunConfig
from agentmem.failures import AgentMemError, StalledError

log = logging.getLogger(__name__)

POLL_S = 1.0
SUPERVISE_S = 2.0
LOOK_S = 0.25
MAX_DATA_FAILURES = 20
"""Trials that failed by our or the environment's own bug before the run gives up."""
LETTERS_READ = 5

T = TypeVar("T")
Beside = Callable[[], Coroutine[Any, Any, None]]


class Watch:
    """See the module's docstring. `event` is told what happened, in two parts."""

    def __init__(
        self,
        config: RunConfig,
        system: System,
        monitor: Monitor,
        flag: InterruptFlag,
        event: Callable[[str, str], None],
        *,
        early: Sequence[Beside] = (),
        beside: Sequence[Beside] = (),
    ) -> None:
        """`beside`: what else goes on for ever beside the loop; `early`: from the moment on at which there is
        a replay buffer."""
        self._limit_s = config.supervision.stall_timeout_s
        self._system, self._monitor, self._flag, self._event = system, monitor, flag, event
        self._early, self._beside = tuple(early), (self._supervise, self._poll, *beside)
        self._tasks: dict[Beside, asyncio.Task[None]] = {}
        self._moved = time.monotonic()
        self._trials = 0
        self._restarts: dict[str, int] = {}
        self._told_ending = False

    def moved(self) -> None:
        """There was progress."""
        self._moved = time.monotonic()

    async def look(self) -> None:
        """A moment for all that. Raises what happened in the background; LearnerError for a lost learner."""
        self._flag.check()
        started = self._system.started
        if "buffer" in started:
            self._go_on(self._early)
        if "fleet" not in started:
            return
        if self._system.lost_learner is not None:
            raise self._system.lost_learner
        self._go_on(self._beside)

    def _go_on(self, works: Sequence[Beside]) -> None:
        """Begin what isn't going on; raise what ended it."""
        for work in works:
            task = self._tasks.get(work)
            if task is None:
                self._tasks[work] = asyncio.ensure_future(work())
            elif task.done():
                del self._tasks[work]
                task.result()

    async def _supervise(self) -> None:
        while True:
            await asyncio.sleep(SUPERVISE_S)
            try:
                await self._system.supervise()
            finally:
                self._note_restarts()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            await self._monitor.poll()
            for what, detail in self._monitor.news():
                self._event(what, detail)
            if self._monitor.totals.trials > self._trials:
                self.moved()
            self._trials = self._monitor.totals.trials
            await self._check_data_failures()

    async def guard(self, work: Awaitable[T]) -> T:
        """Wait for a part's work while the rest is looked after.

        A run that is asked to end lets the work under way end first, as long as its flag says so.
        """
        task = asyncio.ensure_future(work)
        try:
            while True:
                done, _ = await asyncio.wait([task], timeout=LOOK_S)
                if done:
                    return task.result()
                ending = "fleet" in self._system.started and self._flag.requested
                if ending and not self._told_ending:
                    self._told_ending = True
                    log.info(
                        "asked to end: what is under way may go on for as long as a checkpoint still fits"
                    )
                if not ending or not self._flag.may_finish():
                    await self.look()
        finally:
            task.cancel()

    async def thread(self, call: Callable[..., T], *args: Any) -> T:
        """`guard` a blocking call on a thread."""
        return await self.guard(asyncio.to_thread(call, *args))

    def check_stall(self, update: int, what: str) -> None:
        """Raise if nothing has moved for too long."""
        if time.monotonic() - self._moved <= self._limit_s:
            return
        counters, size = self._monitor.counters, self._system.fleet.size()
        parts = [
            f"{counters.queued} trials queued, {counters.running} running, {counters.buffered} buffered",
            f"{counters.groups_ready} groups complete",
            f"alive: {size['agent']} agents, {sum(self._system.serving().values())} engines"
            + (f", {size['env_worker']} env workers" if size["env_worker"] else "")
            + (f", {size['generator']} generators" if "generator" in size else ""),
        ]
        if counters.blocked_producers:
            parts.append(
                f"{counters.blocked_producers} agents blocked on the buffer "
                f"({counters.buffer_bytes} bytes; replay.byte_budget_mib)"
            )
        raise StalledError(
            f"no progress for {self._limit_s:g} s: update {update} waits for {what}; {'; '.join(parts)}"
        )

    async def close(self) -> None:
        """End what goes on in the background."""
        for task in self._tasks.values():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    def _note_restarts(self) -> None:
        for role, count in self._system.restarts().items():
            if count > self._restarts.get(role, 0):
                self._event("restart", f"{role}: {count} so far")
            self._restarts[role] = count

    async def _check_data_failures(self) -> None:
        dead = self._monitor.counters.dead_letters
        if dead > MAX_DATA_FAILURES:
            causes = set(self._monitor.data_failures.values())
            if not causes:
                letters = await asyncio.to_thread(self._system.buffer.dead_letters, LETTERS_READ)
                causes = {f"{letter.what} {letter.where}".strip() for letter in letters}
            raise AgentMemError(f"{dead} trials failed for good: {'; '.join(sorted(causes))}")

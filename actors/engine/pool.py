"""The engines of one policy: started together, given new weights together, replaced one by one when they die.

Promises:
- `push` returns when every engine serves the version; an engine that fails its update is tried again, and
  replaced when its retries are spent, so one bad engine can't stop the others.
- A replacement starts from the model directory and gets the newest weights before it is offered to agents.
- `scale` changes their number at any time. A newcomer starts while the others serve, and joins with the
  newest weights; what an engine that leaves was asked, its askers ask another.
- The restart budget is the pool's; a spent one raises `BudgetError` with the last cause.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from actors.engine.actor import create
from actors.engine.protocol import EngineConfig, EngineStats
from actors.ray_calls import answer, kill, pong, watched
from agentmem.failures import (
    AgentMemError,
    BudgetError,
    Failure,
    FailureKind,
    InfrastructureError,
    WeightSyncError,
)
from agentmem.weights.base import UpdateReport, WeightUpdate

log = logging.getLogger(__name__)

STATS_S = 5.0
GRACE_S = 20.0
"""What a call of an engine may take beyond the engine's own deadlines."""

Changed = Callable[[dict[str, Any]], Awaitable[None]]
"""Gets the live engines by name whenever they change."""


class EnginePool:
    """All engines of a policy. Every method runs in the driver's event loop."""

    def __init__(
        self,
        policy: str,
        config: EngineConfig,
        replicas: int,
        *,
        restart_budget: int,
        retries: int,
        ray_options: dict[str, Any],
        version: int = 0,
        ping_timeout_s: float = 20.0,
        machine_wait_s: float = 0.0,
    ) -> None:
        """`ping_timeout_s`: an engine that answers no ping for so long is dead (its event loop does nothing
        heavy). `machine_wait_s`: what a start may take longer, since the cluster adds machines for it."""
        self.policy = policy
        self._config, self._replicas = config, replicas
        self._retries, self._budget = retries, restart_budget
        self._options, self._ping_s = ray_options, ping_timeout_s
        self._start_s = config.start_s + GRACE_S + machine_wait_s
        self._changing = asyncio.Lock()
        """Pushes and replacements one after another: a replacement gets the newest weights, all of them."""
        self._made = 0
        self._base_version = version
        self._newest: WeightUpdate | None = None
        self.live: dict[str, Any] = {}
        """Name -> actor handle of every engine that serves."""
        self.restarts = 0

    async def start(self) -> None:
        """Start all engines side by side. The first error ends the start."""
        started = await asyncio.gather(*(self._start_one() for _ in range(self._replicas)))
        self.live = dict(started)

    async def push(self, update: WeightUpdate, changed: Changed) -> list[UpdateReport]:
        """Give every engine these weights."""
        async with self._changing:
            self._newest = update
            names = list(self.live)
            done = await asyncio.gather(*(self._push_one(name, update) for name in names))
            for name, result in zip(names, done, strict=True):
                if isinstance(result, BaseException):
                    self._drop(name, result)
            await self._fill(changed)
        return [result for result in done if isinstance(result, UpdateReport)]

    @property
    def desired(self) -> int:
        """Engines that there shall be."""
        return self._replicas

    async def scale(self, replicas: int, changed: Changed) -> None:
        """Change the number of engines. Raises what kept newcomers away; then the old number stands."""
        newcomers = await self._all_or_none([self._started() for _ in range(replicas - self._replicas)])
        async with self._changing:
            if self._newest is not None:
                update = self._newest
                try:
                    await asyncio.gather(*(self._update(name, one, update) for name, one in newcomers))
                except BaseException:
                    for _, handle in newcomers:
                        kill(handle)
                    raise
            self.live.update(newcomers)
            self._replicas = replicas
            # The youngest leave; one that was lost and isn't replaced yet isn't missed any more.
            leaving = [self.live.pop(name) for name in list(self.live)[replicas:]]
            await changed(self.live)
        for handle in leaving:
            kill(handle)

    async def heal(self, changed: Changed) -> None:
        """Look at every engine and replace those that are dead."""
        names = list(self.live)
        answers = await asyncio.gather(
            *(pong(self.live[name].ping.remote(), f"engine {name}", self._ping_s) for name in names),
            return_exceptions=True,
        )
        async with self._changing:
            for name, served in zip(names, answers, strict=True):
                if isinstance(served, BaseException) and name in self.live:  # no push has replaced it since
                    self._drop(name, served)
            await self._fill(changed)

    async def stats(self) -> list[EngineStats]:
        """Of the engines that answer."""
        answers = await asyncio.gather(
            *(answer(h.stats.remote(), f"engine {name}", STATS_S) for name, h in self.live.items()),
            return_exceptions=True,
        )
        return [stats for stats in answers if isinstance(stats, EngineStats)]

    def served_version(self) -> int:
        """The version that the last push left behind."""
        return self._newest.version if self._newest is not None else self._base_version

    def snapshot(self) -> str:
        """Where the weights of the last push lie; replacements are given them."""
        return self._newest.location if self._newest is not None else ""

    def close(self) -> None:
        """End all engines at once."""
        for handle in self.live.values():
            kill(handle)
        self.live = {}

    async def _start_one(self) -> tuple[str, Any]:
        """An engine with the newest weights."""
        name, handle = await self._started()
        try:
            if self._newest is not None:
                await self._update(name, handle, self._newest)
        except BaseException:
            kill(handle)
            raise
        return name, handle

    async def _started(self) -> tuple[str, Any]:
        """An engine with the weights of the start."""
        name = f"{self.policy}-{self._made}"
        self._made += 1
        handle = create(self._config, name, version=self._base_version, **self._options)
        try:
            await answer(handle.start.remote(), f"engine {name}", self._start_s)
        except BaseException:
            kill(handle)
            raise
        return name, handle

    async def _all_or_none(self, starts: list[Awaitable[tuple[str, Any]]]) -> list[tuple[str, Any]]:
        """What was started; after an error nothing of it, and the first error is raised."""
        done = await asyncio.gather(*starts, return_exceptions=True)
        started = [each for each in done if not isinstance(each, BaseException)]
        failed = [each for each in done if isinstance(each, BaseException)]
        if failed:
            for _, handle in started:
                kill(handle)
            raise failed[0]
        return started

    async def _push_one(self, name: str, update: WeightUpdate) -> UpdateReport | BaseException:
        last: BaseException | None = None
        for attempt in range(self._retries + 1):
            try:
                report = await self._update(name, self.live[name], update)
            except WeightSyncError as error:
                log.warning("%s (attempt %d)", error, attempt + 1)
                last = error
            except AgentMemError as error:
                return error
            else:
                return report
        assert last is not None
        return last

    async def _update(self, name: str, handle: Any, update: WeightUpdate) -> UpdateReport:
        report: UpdateReport = await watched(
            handle.update_weights.remote(update),
            handle.ping.remote,
            f"engine {name}",
            update.deadlines.total_s + GRACE_S,
            self._ping_s,
        )
        return report

    def _drop(self, name: str, error: BaseException) -> None:
        """Take an engine out of use and end it. Raises what a restart can't mend."""
        kill(self.live.pop(name))
        log.warning("engine %s is lost: %s", name, error)
        self._count(error)

    def _count(self, error: BaseException) -> None:
        if isinstance(error, AgentMemError) and error.kind is FailureKind.DATA:
            raise error
        if self.restarts >= self._budget:
            raise BudgetError(
                f"engines of policy '{self.policy}': {self.restarts} restarts are spent "
                f"(supervision.restart_budget); last cause: {Failure.of(error).what}"
            )
        self.restarts += 1

    async def _fill(self, changed: Changed) -> None:
        """Start what is missing, also after a replacement that was cancelled."""
        if len(self.live) == self._replicas:
            return
        began = time.monotonic()
        # Agents keep their requests until an engine is there again.
        await changed(self.live)
        while len(self.live) < self._replicas:
            try:
                fresh, handle = await self._start_one()
            except InfrastructureError as error:
                self._count(error)
                continue
            self.live[fresh] = handle
            log.warning("engine %s is in its place after %.1f s", fresh, time.monotonic() - began)
        await changed(self.live)

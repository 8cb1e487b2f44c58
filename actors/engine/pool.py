"""The engines of one policy: started together, given new weights together, replaced one by one when they die.

Promises:
- `push` returns when every engine serves the version; an engine that fails its update is tried again, and
  replaced when its retries are spent, so one bad engine can't stop the others.
- A replacement starts from the model directory and gets the newest weights before it is offered to agents.
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
from actors.ray_calls import answer, kill
from agentmem.failures import AgentMemError, BudgetError, Failure, FailureKind, WeightSyncError
from agentmem.weights.base import UpdateReport, WeightUpdate

log = logging.getLogger(__name__)

PING_S = 20.0
"""An engine that doesn't answer a ping for so long is dead: its event loop does nothing heavy."""

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
    ) -> None:
        self.policy = policy
        self._config, self._replicas = config, replicas
        self._retries, self._budget = retries, restart_budget
        self._options = ray_options
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
        self._newest = update
        names = list(self.live)
        done = await asyncio.gather(*(self._push_one(name, update) for name in names))
        for name, result in zip(names, done, strict=True):
            if isinstance(result, BaseException):
                await self._replace(name, result, changed)
        return [result for result in done if isinstance(result, UpdateReport)]

    async def heal(self, changed: Changed) -> None:
        """Look at every engine and replace those that are dead."""
        names = list(self.live)
        answers = await asyncio.gather(
            *(answer(self.live[name].ping.remote(), f"engine {name}", PING_S) for name in names),
            return_exceptions=True,
        )
        for name, served in zip(names, answers, strict=True):
            if isinstance(served, BaseException):
                await self._replace(name, served, changed)

    async def stats(self) -> list[EngineStats]:
        """Of the engines that answer."""
        answers = await asyncio.gather(
            *(answer(h.stats.remote(), f"engine {name}", PING_S) for name, h in self.live.items()),
            return_exceptions=True,
        )
        return [stats for stats in answers if isinstance(stats, EngineStats)]

    def served_version(self) -> int:
        """The version that the last push left behind."""
        return self._newest.version if self._newest is not None else self._base_version

    def close(self) -> None:
        """End all engines at once."""
        for handle in self.live.values():
            kill(handle)
        self.live = {}

    async def _start_one(self) -> tuple[str, Any]:
        name = f"{self.policy}-{self._made}"
        self._made += 1
        handle = create(self._config, name, version=self._base_version, **self._options)
        await answer(handle.start.remote(), f"engine {name}", self._config.start_s + PING_S)
        if self._newest is not None:
            limit = self._newest.deadlines.total_s + PING_S
            await answer(handle.update_weights.remote(self._newest), f"engine {name}", limit)
        return name, handle

    async def _push_one(self, name: str, update: WeightUpdate) -> UpdateReport | BaseException:
        last: BaseException | None = None
        for attempt in range(self._retries + 1):
            try:
                report: UpdateReport = await answer(
                    self.live[name].update_weights.remote(update),
                    f"engine {name}",
                    update.deadlines.total_s + PING_S,
                )
            except WeightSyncError as error:
                log.warning("%s (attempt %d)", error, attempt + 1)
                last = error
            except AgentMemError as error:
                return error
            else:
                return report
        assert last is not None
        return last

    async def _replace(self, name: str, error: BaseException, changed: Changed) -> None:
        began = time.monotonic()
        kill(self.live.pop(name))
        if isinstance(error, AgentMemError) and error.kind is FailureKind.DATA:
            raise error
        if self.restarts >= self._budget:
            raise BudgetError(
                f"engines of policy '{self.policy}': {self.restarts} restarts are spent "
                f"(supervision.restart_budget); last cause: {Failure.of(error).what}"
            )
        self.restarts += 1
        # Agents keep their requests until an engine is there again.
        await changed(self.live)
        fresh, handle = await self._start_one()
        self.live[fresh] = handle
        await changed(self.live)
        log.warning("engine %s (%s) replaced by %s in %.1f s", name, error, fresh, time.monotonic() - began)

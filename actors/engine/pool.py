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
from agentmem.failures import AgentMemError, BudgetError, EngineError, Failure, FailureKind, WeightSyncError
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
        failed = [(name, result) for name, result in zip(names, done, strict=True) if not _ok(result)]
        for name, error in failed:
            await self._replace(name, error, changed)
        return [result for result in done if isinstance(result, UpdateReport)]

    async def heal(self, changed: Changed) -> None:
        """Look at every engine and replace those that are dead."""
        names = list(self.live)
        answers = await asyncio.gather(
            *(_answer(self.live[name].ping.remote(), PING_S) for name in names), return_exceptions=True
        )
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, BaseException):
                await self._replace(name, answer, changed)

    async def stats(self) -> list[EngineStats]:
        """Of the engines that answer."""
        answers = await asyncio.gather(
            *(_answer(handle.stats.remote(), PING_S) for handle in self.live.values()),
            return_exceptions=True,
        )
        return [answer for answer in answers if isinstance(answer, EngineStats)]

    def served_version(self) -> int:
        """The version that the last push left behind."""
        return self._newest.version if self._newest is not None else self._base_version

    def close(self) -> None:
        """End all engines at once."""
        import ray

        for handle in self.live.values():
            ray.kill(handle)
        self.live = {}

    async def _start_one(self) -> tuple[str, Any]:
        name = f"{self.policy}-{self._made}"
        self._made += 1
        handle = create(self._config, name, version=self._base_version, **self._options)
        await _answer(handle.start.remote(), self._config.start_s + PING_S)
        if self._newest is not None:
            await _answer(handle.update_weights.remote(self._newest), self._newest.deadlines.total_s + PING_S)
        return name, handle

    async def _push_one(self, name: str, update: WeightUpdate) -> UpdateReport | BaseException:
        last: BaseException | None = None
        for attempt in range(self._retries + 1):
            try:
                report: UpdateReport = await _answer(
                    self.live[name].update_weights.remote(update), update.deadlines.total_s + PING_S
                )
            except WeightSyncError as error:
                log.warning("%s (attempt %d)", error, attempt + 1)
                last = error
            except (AgentMemError, TimeoutError) as error:
                return error
            else:
                return report
        assert last is not None
        return last

    async def _replace(self, name: str, error: BaseException, changed: Changed) -> None:
        import ray

        began = time.monotonic()
        ray.kill(self.live.pop(name))
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


def _ok(result: object) -> bool:
    return isinstance(result, UpdateReport)


async def _answer(ref: Any, seconds: float) -> Any:
    """The value of a Ray call. A dead actor is an EngineError; the actor's own typed errors are raised."""
    import ray

    try:
        return await asyncio.wait_for(asyncio.wrap_future(ref.future()), seconds)
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, AgentMemError) else error from None
    except ray.exceptions.RayError as error:
        raise EngineError(f"engine process is gone: {' '.join(str(error).split())[:200]}") from error
    except TimeoutError:
        raise EngineError(f"engine did not answer within {seconds:g} s") from None

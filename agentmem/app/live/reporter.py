"""Says once a second through the replay server how the run stands; see `agentmem/app/reporting/status.py`."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import deque
from typing import TYPE_CHECKING

from agentmem.app.live.monitor import Monitor
from agentmem.app.live.system import System
from agentmem.app.reporting.status import EngineStatus, RunStatus, encoded
from agentmem.app.reporting.view import LiveView
from agentmem.config import RunConfig
from agentmem.failures import ReplayError

if TYPE_CHECKING:
    from agentmem.app.live.scaler import Scaler

REPORT_S = 1.0
WINDOW = 10
"""Reports that rates are taken over."""
LAST_S = 3.0
"""What the last word may take."""


class Reporter:
    """One for a run."""

    def __init__(
        self, config: RunConfig, system: System, monitor: Monitor, scaler: Scaler, view: LiveView
    ) -> None:
        self._config, self._system, self._monitor = config, system, monitor
        self._scaler, self._view = scaler, view
        self._seen: deque[tuple[float, int, int, int, int]] = deque(maxlen=WINDOW)

    async def run(self) -> None:
        """For ever."""
        while True:
            await self.report()
            await asyncio.sleep(REPORT_S)

    async def report(self, ended: str = "") -> None:
        """Say it once."""
        await asyncio.to_thread(self._system.buffer.report, encoded(self.status(ended)))

    async def last_word(self, ended: str) -> None:
        """How the run came to its end, if the server still hears it."""
        if "buffer" in self._system.started:
            try:
                await asyncio.wait_for(self.report(ended), LAST_S)
            except (ReplayError, TimeoutError):
                return  # who asks finds a driver that says nothing

    def status(self, ended: str = "") -> RunStatus:
        """As things stand now."""
        system, monitor, progress = self._system, self._monitor, self._view.progress
        totals, last = monitor.totals, progress.recent[-1] if progress.recent else None
        there = "fleet" in system.started
        now = time.monotonic()
        self._seen.append((now, totals.trials, totals.episodes, totals.turns, totals.sampled_tokens))
        began, *before = self._seen[0]
        span = max(now - began, 1e-9)
        latest = self._seen[-1][1:]
        rates = [max(new - old, 0) / span for new, old in zip(latest, before, strict=True)]
        return RunStatus(
            run=system.run.name,
            recipe=self._config.recipe,
            host=socket.gethostname(),
            pid=os.getpid(),
            phase=str(progress.phase),
            ended=ended,
            evaluating=monitor.evaluating,
            update=progress.done,
            updates=progress.updates,
            since_update_s=None if monitor.updated_at is None else now - monitor.updated_at,
            version=last.version if last else None,
            served=monitor.served,
            staleness_mean=last.staleness_mean if last else None,
            staleness_max=last.staleness_max if last else None,
            p_at_k=last.p_at_k if last else [],
            reward=last.reward_mean if last else None,
            trials_per_s=rates[0],
            episodes_per_s=rates[1],
            turns_per_s=rates[2],
            sampled_tokens_per_s=rates[3],
            learner_idle=last.learner_idle if last else None,
            rollout_idle=totals.idle_share if there else None,
            kinds=self._scaler.kinds() if there else {},
            sequence=self._scaler.sequence,
            restarts=system.restarts() if there else {},
            restart_budget=self._config.supervision.restart_budget,
            slots=monitor.slots,
            in_flight=monitor.in_flight,
            engines={
                policy: EngineStatus(
                    requests=int(load.requests),
                    queued=int(load.queued),
                    places=int(load.places),
                    cache_share=load.cache,
                )
                for policy, load in monitor.engine_loads.items()
            },
            byte_budget=self._config.replay.byte_budget_mib << 20,
            metrics=monitor.metrics_url,
        )

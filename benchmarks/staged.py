"""A run that isn't one: its metrics go through a real Ray node, and show one fault after another."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from agentmem.telemetry import METRICS, Kind, Metrics

RUN = "staged"
BEAT_S = 0.5
GAUGES: dict[str, float] = {
    "agentmem_queued_tickets": 5,
    "agentmem_running_tickets": 3,
    "agentmem_buffer_bytes": 10,
    "agentmem_buffer_budget_bytes": 100,
    "agentmem_planned_updates_count": 1e6,
    "agentmem_unaccounted_tickets": 0,
    "agentmem_evaluations_count": 0,
    "agentmem_idle_ratio": 0.2,
    "agentmem_staleness_updates": 1,
    "agentmem_trained_version_count": 20,
    "agentmem_served_version_count": 20,
}
GROWING = {
    "agentmem_trials_total": 1.0,
    "agentmem_updates_total": 1.0,
    "agentmem_advice_decisions_total": 1.0,
    "agentmem_restarts_total": 0.0,
    "agentmem_skipped_steps_total": 0.0,
}
"""What a counter gains in a beat; others gain one each in the first beats alone."""
FIRST_BEATS = 6
REASONS = {
    "agentmem_advice_decisions_total": ("generate", "abstain"),
    "agentmem_env_slots": ("busy", "free", "waiting"),
}


class Staged:
    """Ray actor. What `fault` sets holds until `heal`."""

    def __init__(self) -> None:
        from actors.ray_metrics import RayBackend

        self._metrics = Metrics(RUN, RayBackend(beat_s=1.0))
        self._fault: dict[str, Any] = {}
        self._beat = 0
        self._staleness = 1.0
        self._done = 0.0
        self._task = asyncio.get_event_loop().create_task(self._go_on())

    async def fault(self, changes: Mapping[str, Any]) -> None:
        """Metric -> its value (a gauge), what it gains in a beat (a counter), or by reason a gain."""
        self._fault = dict(changes)

    async def heal(self) -> None:
        """As a run that is well."""
        self._fault, self._staleness = {}, 1.0

    async def beats(self) -> int:
        """How often everything was told. Raises what ended it."""
        if self._task.done():
            self._task.result()
        return self._beat

    async def _go_on(self) -> None:
        while True:
            self._tell()
            self._beat += 1
            await asyncio.sleep(BEAT_S)

    def _tell(self) -> None:
        sums = {d.sum_name for d in METRICS.values() if d.kind is Kind.HISTOGRAM}
        if self._fault.get("agentmem_updates_total", 1.0):
            self._done += 1
        self._staleness += self._fault.get("growing staleness", 0.0)
        values = {**GAUGES, "agentmem_done_updates_count": self._done}
        values["agentmem_staleness_updates"] = self._staleness
        for name, definition in METRICS.items():
            for reason in REASONS.get(name, ("learner",)):
                tags = {tag: reason if tag == "reason" else "learner" for tag in definition.tags}
                if definition.kind is Kind.GAUGE:
                    self._metrics.gauge(name, self._fault.get(name, values.get(name, 1.0)), **tags)
                elif definition.kind is Kind.HISTOGRAM:
                    self._metrics.observe(name, 0.2, **tags)
                elif name not in sums:
                    gain = self._fault.get(f"{name} {reason}", self._fault.get(name))
                    usual = GROWING.get(name, 1.0 if self._beat < FIRST_BEATS else 0.0)
                    self._metrics.count(name, usual if gain is None else gain, **tags)


FAULTS: dict[str, dict[str, float]] = {
    "AgentMemRolloutStalled": {"agentmem_trials_total": 0.0},
    "AgentMemLearnerStalled": {"agentmem_updates_total": 0.0},
    "AgentMemLearnerStarving": {"agentmem_idle_ratio": 0.95},
    "AgentMemStalenessGrowing": {"growing staleness": 0.4},
    "AgentMemBufferNearBudget": {"agentmem_buffer_bytes": 96},
    "AgentMemRestartStorm": {"agentmem_restarts_total": 1.0},
    "AgentMemAccountingBroken": {"agentmem_unaccounted_tickets": 2},
    "AgentMemWeightsNotServed": {"agentmem_served_version_count": 3},
    "AgentMemStepsNotFinite": {"agentmem_skipped_steps_total": 1.0},
    "AgentMemAbstentionCollapsed": {"agentmem_advice_decisions_total generate": 0.0},
}
"""AgentMemRunGone is the death of the actor itself; it is over when another takes its place."""

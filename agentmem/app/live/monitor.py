"""Reads what the parts count, and hands it to metrics and view. Totals come from their sources.

One `poll` is one look: counters of the buffer (what Redis holds), of the agents and of the engines.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from actors.autoscaler import EngineLoad
from agentmem.app.live.exports import (
    export_advice,
    export_buffer,
    export_engines,
    export_fleet,
    export_skipped,
    export_update_values,
    policy_of,
)
from agentmem.app.live.signals import SignalMeter, engine_loads
from agentmem.app.live.system import System
from agentmem.app.reporting.records import AdviceRecord, GapRecord, UpdateRecord
from agentmem.app.reporting.view import LiveView
from agentmem.memory.advice_health import BINS, AbstentionAlarm
from agentmem.replay import Counters
from agentmem.telemetry import Metrics

log = logging.getLogger(__name__)

DECISIONS = ("generate", "abstain")


@dataclass(slots=True)
class Totals:
    """What the whole system has done since its parts were started (dead parts included)."""

    trials: int = 0
    episodes: int = 0
    turns: int = 0
    invalid: int = 0
    reflections: int = 0
    sampled_tokens: int = 0
    idle_share: float = 0.0
    """Share of the places for trials that were empty, mean over the agents."""
    stops: dict[str, int] = field(default_factory=dict)
    tips: dict[str, int] = field(default_factory=dict)
    """What became of tips, by name."""
    memory_dropped: int = 0
    advice: dict[str, int] = field(default_factory=dict)
    """Mem-π: advice that trials were given, by what it was, and its tokens."""


class Monitor:
    """See the module's docstring."""

    def __init__(self, system: System, metrics: Metrics, view: LiveView) -> None:
        self._system, self._metrics, self._view = system, metrics, view
        self._latest: dict[str, Any] = {}
        """Last stats of each agent and engine that was ever seen: what the dead have done stays counted."""
        self._done = 0
        """Updates of the run, as far as this process knows: until the first one, none."""
        self._driver_cpu_s = time.process_time()
        self.evaluating = False
        """A held-out evaluation is played, for which the learner waits."""
        self.meter = SignalMeter()
        """For the autoscaler."""
        self.updated_at: float | None = None
        """When this process finished its last update (monotonic)."""
        self.served: int | None = None
        """Oldest weight version that an engine of the trained policy serves."""
        self.slots: dict[str, int] = {}
        self.in_flight = 0
        self.engine_loads: dict[str, EngineLoad] = {}
        self._waited = 1.0
        self.counters = Counters()
        self.totals = Totals()
        self.data_failures: dict[str, str] = {}
        """Agent -> its last failure that no retry can mend."""
        self._alarm = AbstentionAlarm()
        self._news: list[tuple[str, str]] = []

    async def poll(self) -> None:
        """One look at everything."""
        system = self._system
        self.counters, agents, workers, engines, generators = await asyncio.gather(
            asyncio.to_thread(system.buffer.counters),
            system.fleet.agent_stats(),
            system.fleet.worker_stats(),
            system.engine_stats(),
            system.fleet.generator_stats(),
        )
        for asked in generators:
            self._latest[f"generator {asked.name}"] = asked
        for stats in agents:
            self._latest[f"agent {stats.name}"] = stats
            if stats.data_failures:
                self.data_failures[stats.name] = stats.last_failure
        for served in engines:
            self._latest[f"engine {served.name}"] = served
        self._sum(agents)
        advised = [each for name, each in self._latest.items() if name.startswith("generator ")]
        self.meter.add(self.counters, agents, workers, engines, trials=self.totals.trials, advised=advised)
        self.in_flight, self.engine_loads = sum(a.in_flight for a in agents), engine_loads(engines)
        if workers:
            busy = sum(w.busy for w in workers)
            free = sum(w.slots for w in workers) - busy
            self.slots = {"busy": busy, "free": free, "waiting": sum(w.waiting for w in workers)}
        versions = [e.version for e in engines if policy_of(e.name) == system.config.learning]
        self.served = min(versions, default=self.served)
        self._export()
        members = {**system.fleet.size(), "engine": sum(system.serving().values())}
        export_fleet(self._metrics, agents, workers, members)
        ever = [stats for name, stats in self._latest.items() if name.startswith("engine ")]
        export_engines(self._metrics, ever, engines, learning=system.config.learning)
        self._view.status(
            {
                name: getattr(self.counters, name)
                for name in ("queued", "running", "buffered", "trained", "filtered")
            }
        )

    def news(self) -> list[tuple[str, str]]:
        """What happened since the last call, and its detail."""
        told, self._news = self._news, []
        return told

    @property
    def learner_wait(self) -> float:
        """Share of its time for which the learner waits for trials: all of it in an evaluation, and before
        the first update."""
        return 1.0 if self.evaluating else self._waited

    @property
    def metrics_url(self) -> str:
        """Where this process serves metrics; empty if it doesn't."""
        return self._metrics.url

    def cpu_by_role(self) -> dict[str, float]:
        """CPU seconds of agents, engines and driver since their starts, the dead included."""
        spent = {"agents": 0.0, "engines": 0.0, "driver": time.process_time() - self._driver_cpu_s}
        for name, stats in self._latest.items():
            role = name.split()[0] + "s"
            spent[role] = spent.get(role, 0.0) + stats.cpu_s
        return spent

    def _sum(self, live: list[Any]) -> None:
        agents = [stats for name, stats in self._latest.items() if name.startswith("agent ")]
        stops: dict[str, int] = {}
        for stats in agents:
            for reason, count in stats.stops.items():
                stops[reason] = stops.get(reason, 0) + count
        tips: dict[str, int] = {}
        advice: dict[str, int] = {}
        for stats in agents:
            for what, count in stats.tips.items():
                tips[what] = tips.get(what, 0) + count
            for what, count in stats.advice.items():
                advice[what] = advice.get(what, 0) + count
        self.totals = Totals(
            trials=sum(a.trials for a in agents),
            episodes=sum(a.episodes for a in agents),
            turns=sum(a.turns for a in agents),
            invalid=sum(a.invalid for a in agents),
            reflections=sum(a.reflections for a in agents),
            sampled_tokens=sum(a.response_tokens for a in agents),
            idle_share=sum(a.idle_share for a in live) / len(live) if live else 0.0,
            stops=stops,
            tips=tips,
            advice=advice,
            memory_dropped=sum(a.memory_dropped for a in agents),
        )

    def _export(self) -> None:
        metrics, totals, config = self._metrics, self.totals, self._system.config
        env = config.env.name
        export_buffer(metrics, self.counters, config.replay.byte_budget_mib << 20)
        if self._system.learns:
            metrics.gauge("agentmem_planned_updates_count", config.learner.updates)
            metrics.gauge("agentmem_done_updates_count", self._done)
            metrics.gauge("agentmem_evaluations_count", int(self.evaluating))
        metrics.total("agentmem_trials_total", totals.trials, env=env)
        for reason, count in totals.stops.items():
            metrics.total("agentmem_episodes_total", count, env=env, reason=reason)
        acts = totals.turns - totals.reflections
        metrics.total("agentmem_turns_total", acts, policy="agent", reason="act")
        metrics.total("agentmem_turns_total", totals.reflections, policy="agent", reason="reflect")
        self._export_memory(totals)
        if self._system.config.advised:
            self._export_advice(totals)
        metrics.total("agentmem_env_steps_total", acts, env=env)
        metrics.total("agentmem_invalid_turns_total", totals.invalid, env=env)
        metrics.total("agentmem_sampled_tokens_total", totals.sampled_tokens, policy="agent")
        metrics.gauge("agentmem_idle_ratio", totals.idle_share, role="rollout")
        for role, count in self._system.restarts().items():
            metrics.total("agentmem_restarts_total", count, role=role)

    def _export_memory(self, totals: Totals) -> None:
        metrics, tips = self._metrics, dict(totals.tips)
        metrics.total("agentmem_dropped_memories_total", totals.memory_dropped, policy="agent")
        if tips:
            metrics.total("agentmem_tip_tokens_total", tips.pop("tokens"), policy="agent")
            metrics.total("agentmem_recalled_tips_total", tips.pop("recalled"), policy="agent")
            metrics.total(
                "agentmem_turns_total", tips["written"] + tips["empty"], policy="agent", reason="tip"
            )
        for what, count in tips.items():
            metrics.total("agentmem_tips_total", count, reason=what)

    def _export_advice(self, totals: Totals) -> None:
        metrics, advice = self._metrics, dict(totals.advice)
        metrics.total("agentmem_advice_tokens_total", advice.pop("tokens", 0), policy="memory")
        for what, count in advice.items():
            metrics.total("agentmem_advice_total", count, reason=what)
        asked = [stats for name, stats in self._latest.items() if name.startswith("generator ")]
        metrics.total("agentmem_generator_wait_seconds_total", sum(stats.wait_s for stats in asked))
        for number in range(BINS):
            count = sum(stats.p_generate[number] for stats in asked)
            metrics.total("agentmem_advice_choices_total", count, reason=f"{number / BINS:g}")
        generated, abstained = (sum(getattr(s, f"would_{what}") for s in asked) for what in DECISIONS)
        for what, count in zip(DECISIONS, (generated, abstained), strict=True):
            metrics.total("agentmem_advice_decisions_total", count, reason=what)
        changed = self._alarm.look(generated, abstained)
        if changed is not None:
            log.warning("%s: %s", *changed)
            self._news.append(changed)
        metrics.gauge("agentmem_abstention_collapsed_count", self._alarm.collapsed)

    def updated(
        self, record: UpdateRecord, push: dict[str, float], result: Mapping[str, float], *, applied: bool
    ) -> None:
        """An update of the learner is over. `result`: the learner's metrics; its seconds are the phases."""
        metrics, env = self._metrics, self._system.config.env.name
        self._done, self.updated_at = record.update, time.monotonic()
        self._waited = record.wait_s / max(record.wait_s + record.update_s + record.push_s, 1e-9)
        metrics.gauge("agentmem_done_updates_count", record.update)
        export_update_values(metrics, record)
        export_skipped(metrics, result, applied=applied)
        metrics.count("agentmem_updates_total")
        trained = self._system.config.learning
        metrics.count("agentmem_trained_tokens_total", record.trained_tokens, policy=trained)
        metrics.gauge("agentmem_trained_version_count", record.version)
        metrics.gauge("agentmem_last_update_timestamp_seconds", time.time())
        metrics.gauge("agentmem_idle_ratio", record.learner_idle, role="learner")
        if record.staleness_mean is not None:
            metrics.gauge("agentmem_staleness_updates", record.staleness_mean)
        for k, share in enumerate(record.p_at_k, start=1):
            metrics.gauge("agentmem_pass_at_k_ratio", share, reason=str(k))
        if record.p_at_k:
            metrics.gauge("agentmem_success_ratio", record.p_at_k[-1], env=env)
        for mode, (trials, solved) in record.modes.items():
            metrics.count("agentmem_mode_trials_total", trials, reason=mode)
            metrics.gauge("agentmem_mode_success_ratio", solved / trials, reason=mode)
        for what, value in record.off_policy.items():
            metrics.gauge("agentmem_off_policy_ratio", value, reason=what)
        export_advice(metrics, record)
        for phase, seconds in push.items():
            metrics.observe("agentmem_push_duration_seconds", seconds, reason=phase)
        for name, seconds in result.items():
            if name.endswith("_s"):
                phase = name.removesuffix("_s")
                metrics.observe("agentmem_update_duration_seconds", seconds, reason=phase)
        self._view.update(record)

    def advised(self, record: AdviceRecord) -> None:
        """An evaluation with a memory policy is over."""
        shares = {"": record.abstains, " easy": record.abstains_easy, " hard": record.abstains_hard}
        for of, share in shares.items():
            if share is not None:
                self._metrics.gauge("agentmem_abstention_ratio", share, reason=f"eval{of}")

    def memory_gap(self, record: GapRecord) -> None:
        """An evaluation with and without memory is over."""
        for k, gap in enumerate(record.gap, start=1):
            self._metrics.gauge("agentmem_memory_gap_ratio", gap, reason=str(k))

"""From what the parts count to metrics. Each function is handed one look at a source and exports all of it.

Nothing is added up over time here: totals are the sources' own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from agentmem.app.reporting.records import DistilRecord, UpdateRecord
from agentmem.replay import Counters
from agentmem.telemetry import Metrics

if TYPE_CHECKING:
    from actors.engine.protocol import EngineStats
    from actors.rollout.agent_stats import AgentStats
    from actors.rollout.env_service import ServiceStats

UPDATE_VALUES = (
    "policy_loss",
    "value_loss",
    "entropy",
    "grad_norm",
    "lr",
    "clip_fraction",
    "mismatch_kl",
    "ratio_mean",
    "explained_variance",
    "reward_mean",
    "intrinsic_mean",
    "invalid_share",
)
"""Numbers of an update's record that are exported under their names."""
DISTIL_VALUES = {"loss": "distil_loss", "held_out": "held_out_loss", "lr": "lr"}
"""Of a step of Stage 1: field of its record -> name."""


ADVICE_VALUES = ("delta", "v_gen", "v_abstain", "gate_open_share", "dead_share", "p_generate")
"""Of Mem-π's groups, likewise."""


def export_advice(metrics: Metrics, record: UpdateRecord) -> None:
    """What an update's groups say of a memory policy; nothing of a run without one."""
    for name in ADVICE_VALUES:
        if name in record.advice:
            metrics.gauge("agentmem_advice_value", record.advice[name], reason=name)
    for of in ("", "_easy", "_hard"):
        share = record.advice.get(f"abstains{of}")
        if share is not None:
            metrics.gauge("agentmem_abstention_ratio", share, reason=f"train{of.replace('_', ' ')}")


def export_buffer(metrics: Metrics, counters: Counters, byte_budget: int) -> None:
    """What Redis holds and has seen, in one atomic look."""
    for state in ("queued", "running", "buffered"):
        metrics.gauge(f"agentmem_{state}_tickets", getattr(counters, state))
    for end in ("submitted", "trained", "filtered", "failed", "expired"):
        metrics.total(f"agentmem_{end}_tickets_total", getattr(counters, end))
    metrics.gauge("agentmem_unaccounted_tickets", unaccounted(counters))
    for dropped, count in counters.expired_by_env.items():
        metrics.total("agentmem_expired_by_env_total", count, env=dropped)
    for length, count in counters.expired_by_length.items():
        metrics.total("agentmem_expired_by_length_total", count, reason=str(length))
    for reason, count in counters.drops.items():
        metrics.total("agentmem_drops_total", count, reason=reason)
    metrics.total("agentmem_retried_tickets_total", counters.retried)
    metrics.total("agentmem_expired_leases_total", counters.leases_expired)
    metrics.total("agentmem_dead_letters_total", counters.dead_letters)
    for state in ("open", "ready", "taken", "held"):
        metrics.gauge("agentmem_groups_count", getattr(counters, f"groups_{state}"), reason=state)
    metrics.gauge("agentmem_buffer_bytes", counters.buffer_bytes)
    metrics.gauge("agentmem_buffer_budget_bytes", byte_budget)
    metrics.total("agentmem_blocked_seconds_total", counters.blocked_s)
    metrics.gauge("agentmem_blocked_producers_count", counters.blocked_producers)
    metrics.gauge("agentmem_table_bytes", counters.replay_bytes)
    metrics.gauge("agentmem_table_groups_count", counters.replay_groups)
    metrics.total("agentmem_table_drawn_trials_total", counters.replay_drawn)
    for what in ("inserted", "sampled", "evicted", "refused", "limited"):
        metrics.total("agentmem_table_groups_total", getattr(counters, f"replay_{what}"), reason=what)
    metrics.gauge("agentmem_held_tips_count", counters.tips)
    metrics.gauge("agentmem_tip_bytes", counters.tip_bytes)


def unaccounted(counters: Counters) -> int:
    """Tickets by which the accounting identity fails (see `Counters.identity_holds`)."""
    c = counters
    found = c.queued + c.running + c.buffered + c.trained + c.filtered + c.failed + c.expired
    evaluated = c.eval_queued + c.eval_running + c.eval_done + c.eval_failed
    return abs(c.submitted - found) + abs(c.eval_submitted - evaluated)


def export_fleet(
    metrics: Metrics,
    agents: Sequence[AgentStats],
    workers: Sequence[ServiceStats],
    members: Mapping[str, int],
) -> None:
    """Agents and env workers that answered, and how many of each role run."""
    for role, count in members.items():
        metrics.gauge("agentmem_members_count", count, role=role)
    metrics.gauge("agentmem_in_flight_trials", sum(a.in_flight for a in agents))
    metrics.gauge("agentmem_trial_places", sum(a.limit for a in agents))
    metrics.gauge("agentmem_unwritten_trials", sum(a.unwritten for a in agents))
    metrics.gauge("agentmem_agent_lag_seconds", max((a.loop_lag_s for a in agents), default=0.0))
    if workers:
        busy = sum(w.busy for w in workers)
        metrics.gauge("agentmem_env_slots", busy, reason="busy")
        metrics.gauge("agentmem_env_slots", sum(w.slots for w in workers) - busy, reason="free")
        metrics.gauge("agentmem_env_slots", sum(w.waiting for w in workers), reason="waiting")


def export_engines(
    metrics: Metrics, ever: Iterable[EngineStats], live: Sequence[EngineStats], *, learning: str
) -> None:
    """Engines. `ever`: the last look at each that was ever seen, so that the dead stay counted.

    `learning`: the policy that is trained, whose engines are given new weights.
    """
    by_policy: dict[str, list[EngineStats]] = {}
    for stats in ever:
        by_policy.setdefault(policy_of(stats.name), []).append(stats)
    for policy, all_of in by_policy.items():
        metrics.total("agentmem_engine_requests_total", sum(e.requests for e in all_of), policy=policy)
        metrics.total("agentmem_engine_failures_total", sum(e.failures for e in all_of), policy=policy)
        metrics.total(
            "agentmem_engine_prompt_tokens_total", sum(e.prompt_tokens for e in all_of), policy=policy
        )
        metrics.total("agentmem_engine_steps_total", sum(e.steps for e in all_of), policy=policy)
        metrics.total("agentmem_engine_paused_seconds_total", sum(e.paused_s for e in all_of), policy=policy)
        metrics.total(
            "agentmem_engine_failed_swaps_total", sum(e.failed_updates for e in all_of), policy=policy
        )
        under_way = sum(e.in_flight for e in live if policy_of(e.name) == policy)
        metrics.gauge("agentmem_engine_in_flight_requests", under_way, policy=policy)
        of_policy = [e for e in live if policy_of(e.name) == policy]
        metrics.gauge("agentmem_engine_queued_requests", sum(e.queued for e in of_policy), policy=policy)
        fullest = max((e.cache_share for e in of_policy), default=0.0)
        metrics.gauge("agentmem_engine_cache_ratio", fullest, policy=policy)
    versions = [e.version for e in live if policy_of(e.name) == learning]
    if versions:
        metrics.gauge("agentmem_served_version_count", min(versions))


def policy_of(engine: str) -> str:
    """`agent-3` -> `agent`: a pool names its engines after its policy."""
    return engine.rpartition("-")[0]


def export_update_values(metrics: Metrics, record: UpdateRecord) -> None:
    """Loss, entropy and the like of an update; what it hasn't (None) keeps its last value."""
    for name in UPDATE_VALUES:
        value = getattr(record, name)
        if value is not None:
            metrics.gauge("agentmem_update_value", value, reason=name)


def export_skipped(metrics: Metrics, result: Mapping[str, float], *, applied: bool) -> None:
    """An update without a step, and steps without finite gradients. `result`: the learner's metrics."""
    empty = bool(result.get("empty", 0.0))
    metrics.count("agentmem_skipped_updates_total", float(empty), reason="empty")
    metrics.count("agentmem_skipped_updates_total", float(not applied and not empty), reason="non_finite")
    metrics.count("agentmem_skipped_steps_total", result.get("skipped_steps", 0.0))


def export_distil(metrics: Metrics, record: DistilRecord) -> None:
    """A step of Mem-π's Stage 1 is over: it counts as an update."""
    metrics.gauge("agentmem_done_updates_count", record.update)
    metrics.gauge("agentmem_last_update_timestamp_seconds", time.time())
    metrics.count("agentmem_updates_total")
    metrics.count("agentmem_trained_tokens_total", record.tokens, policy="memory")
    for field, name in DISTIL_VALUES.items():
        value = getattr(record, field)
        if value is not None:
            metrics.gauge("agentmem_update_value", value, reason=name)

"""Every metric that AgentMem exports: name, kind, tags, buckets. The only place where a metric is defined.

Names are `agentmem_<what>_<unit|total>`; only the tags of `TAGS` exist, and none identifies a single trial.
`reason` tells apart the kinds of one thing (a drop's reason, a phase, the k of p@k).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

TAGS = ("run", "role", "env", "policy", "reason")


class Kind(StrEnum):
    """How a metric behaves."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric. `tags` beside `run`, which every metric has."""

    name: str
    kind: Kind
    help: str
    tags: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def sum_name(self) -> str:
        """A histogram's exact sum: the counter beside it (`..._duration_seconds` -> `..._seconds_total`)."""
        return self.name.replace("_duration_seconds", "_seconds_total")


_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_STATES = ("queued", "running", "buffered")
_ENDS = ("submitted", "trained", "filtered", "failed", "expired")

_DEFINITIONS = (
    *(Definition(f"agentmem_{s}_tickets", Kind.GAUGE, f"Training tickets now {s}.") for s in _STATES),
    *(Definition(f"agentmem_{s}_tickets_total", Kind.COUNTER, f"Training tickets {s}.") for s in _ENDS),
    Definition(
        "agentmem_unaccounted_tickets",
        Kind.GAUGE,
        "Tickets by which submitted differs from the sum of all states, evaluation's included (0: none).",
    ),
    Definition("agentmem_retried_tickets_total", Kind.COUNTER, "Attempts given back for a retry."),
    Definition("agentmem_expired_leases_total", Kind.COUNTER, "Leases of tickets that ran out."),
    Definition("agentmem_dead_letters_total", Kind.COUNTER, "Tickets that failed for good."),
    Definition(
        "agentmem_groups_count", Kind.GAUGE, "Groups by state (open, ready, taken, held).", ("reason",)
    ),
    Definition("agentmem_expired_by_env_total", Kind.COUNTER, "Training tickets expired.", ("env",)),
    Definition(
        "agentmem_expired_by_length_total",
        Kind.COUNTER,
        "Training tickets expired, by the sampled tokens of the trial (reason: its upper bound).",
        ("reason",),
    ),
    Definition("agentmem_trials_total", Kind.COUNTER, "Trials finished.", ("env",)),
    Definition(
        "agentmem_episodes_total", Kind.COUNTER, "Episodes finished, by stop reason.", ("env", "reason")
    ),
    Definition(
        "agentmem_turns_total", Kind.COUNTER, "LLM calls of policies, by turn kind.", ("policy", "reason")
    ),
    Definition("agentmem_invalid_turns_total", Kind.COUNTER, "Turns without a usable action.", ("env",)),
    Definition("agentmem_env_steps_total", Kind.COUNTER, "Environment steps.", ("env",)),
    Definition("agentmem_in_flight_trials", Kind.GAUGE, "Trials that agents play now."),
    Definition("agentmem_trial_places", Kind.GAUGE, "Trials that agents could play at once."),
    Definition("agentmem_unwritten_trials", Kind.GAUGE, "Trials and episodes on their way to the buffer."),
    Definition("agentmem_agent_lag_seconds", Kind.GAUGE, "Longest delay of an agent's event loop lately."),
    Definition("agentmem_members_count", Kind.GAUGE, "Parts that run, by role.", ("role",)),
    Definition(
        "agentmem_desired_members_count", Kind.GAUGE, "Parts that there shall be, by role.", ("role",)
    ),
    Definition(
        "agentmem_load_ratio",
        Kind.GAUGE,
        "Work against capacity, as the autoscaler sees it (1: full), by role.",
        ("role",),
    ),
    Definition(
        "agentmem_scaling_total",
        Kind.COUNTER,
        "Changes of the number of parts (reason: up, down, refused), by role.",
        ("role", "reason"),
    ),
    Definition(
        "agentmem_env_slots",
        Kind.GAUGE,
        "Places for environments in workers (reason: busy, free), and trials in line for one (waiting).",
        ("reason",),
    ),
    Definition("agentmem_engine_requests_total", Kind.COUNTER, "Requests to engines.", ("policy",)),
    Definition("agentmem_engine_failures_total", Kind.COUNTER, "Requests that failed.", ("policy",)),
    Definition("agentmem_engine_in_flight_requests", Kind.GAUGE, "Requests under way.", ("policy",)),
    Definition("agentmem_engine_queued_requests", Kind.GAUGE, "Of them, those in line.", ("policy",)),
    Definition(
        "agentmem_engine_cache_ratio", Kind.GAUGE, "KV cache in use, of the fullest engine.", ("policy",)
    ),
    Definition("agentmem_engine_prompt_tokens_total", Kind.COUNTER, "Tokens of prompts.", ("policy",)),
    Definition("agentmem_engine_steps_total", Kind.COUNTER, "Forward passes of engines.", ("policy",)),
    Definition(
        "agentmem_engine_paused_seconds_total",
        Kind.COUNTER,
        "Time for which weight updates held generation, of all engines.",
        ("policy",),
    ),
    Definition("agentmem_engine_failed_swaps_total", Kind.COUNTER, "Weight updates failed.", ("policy",)),
    Definition("agentmem_sampled_tokens_total", Kind.COUNTER, "Tokens sampled.", ("policy",)),
    Definition("agentmem_trained_tokens_total", Kind.COUNTER, "Tokens with a gradient.", ("policy",)),
    Definition("agentmem_updates_total", Kind.COUNTER, "Learner updates."),
    Definition("agentmem_planned_updates_count", Kind.GAUGE, "Updates that the run shall make."),
    Definition("agentmem_done_updates_count", Kind.GAUGE, "Updates that the run has made, resumes included."),
    Definition("agentmem_evaluations_count", Kind.GAUGE, "Held-out evaluations under way (0 or 1)."),
    Definition(
        "agentmem_skipped_updates_total",
        Kind.COUNTER,
        "Updates without a step (reason: empty, non_finite).",
        ("reason",),
    ),
    Definition(
        "agentmem_skipped_steps_total", Kind.COUNTER, "Optimiser steps skipped for gradients not finite."
    ),
    Definition(
        "agentmem_update_value",
        Kind.GAUGE,
        "A number of the last update (reason: policy_loss, entropy, grad_norm, lr, clip_fraction, ...).",
        ("reason",),
    ),
    Definition("agentmem_success_ratio", Kind.GAUGE, "Trials solved, of the last update's.", ("env",)),
    Definition(
        "agentmem_pass_at_k_ratio", Kind.GAUGE, "p@k of the last update's trials (reason: k).", ("reason",)
    ),
    Definition(
        "agentmem_memory_gap_ratio",
        Kind.GAUGE,
        "p@k with memory minus without, of the last evaluation under both (reason: k).",
        ("reason",),
    ),
    Definition(
        "agentmem_tips_total",
        Kind.COUNTER,
        "Tips after episodes, by what became of them (written, empty, too_long, failed, skipped).",
        ("reason",),
    ),
    Definition("agentmem_tip_tokens_total", Kind.COUNTER, "Tokens sampled for tips.", ("policy",)),
    Definition("agentmem_recalled_tips_total", Kind.COUNTER, "Tips shown in prompts.", ("policy",)),
    Definition("agentmem_held_tips_count", Kind.GAUGE, "Tips in all books."),
    Definition("agentmem_tip_bytes", Kind.GAUGE, "Bytes of the tips held."),
    Definition(
        "agentmem_advice_total",
        Kind.COUNTER,
        "Advice that trials were given, by what it was (generate, abstain, late).",
        ("reason",),
    ),
    Definition(
        "agentmem_advice_tokens_total", Kind.COUNTER, "Tokens sampled by a memory policy.", ("policy",)
    ),
    Definition(
        "agentmem_advice_choices_total",
        Kind.COUNTER,
        "Decisions that a memory policy was asked for, by p(generate) (reason: a tenth's lower bound).",
        ("reason",),
    ),
    Definition(
        "agentmem_advice_decisions_total",
        Kind.COUNTER,
        "Decisions that a memory policy was asked for, by what it itself would do (generate, abstain).",
        ("reason",),
    ),
    Definition(
        "agentmem_abstention_ratio",
        Kind.GAUGE,
        "Share of abstentions by the policy's own choice, of the last update and the last evaluation "
        "(reason: train, eval; with easy or hard: of tasks that the agent alone solves, or not).",
        ("reason",),
    ),
    Definition(
        "agentmem_abstention_collapsed_count",
        Kind.GAUGE,
        "1 while a memory policy abstains almost always or almost never, else 0.",
    ),
    Definition(
        "agentmem_advice_value",
        Kind.GAUGE,
        "A number of the last update's groups of Mem-π (reason: delta, gate_open_share, dead_share, ...).",
        ("reason",),
    ),
    Definition(
        "agentmem_advice_requests_total",
        Kind.COUNTER,
        "Requests to an advice service (reason: the status of the answer).",
        ("reason",),
    ),
    Definition(
        "agentmem_advice_in_flight_requests", Kind.GAUGE, "Questions that an advice service works on."
    ),
    Definition(
        "agentmem_advice_duration_seconds", Kind.HISTOGRAM, "An answer of an advice service.", (), _SECONDS
    ),
    Definition(
        "agentmem_generator_wait_seconds_total", Kind.COUNTER, "Seconds that answered questions took, added."
    ),
    Definition(
        "agentmem_dropped_memories_total",
        Kind.COUNTER,
        "Tips and earlier episodes left out of prompts that would have been too long.",
        ("policy",),
    ),
    Definition(
        "agentmem_mode_trials_total",
        Kind.COUNTER,
        "Trials trained, by EMPO²'s mode of the update.",
        ("reason",),
    ),
    Definition(
        "agentmem_mode_success_ratio",
        Kind.GAUGE,
        "Trials solved, of the last update's, by EMPO²'s mode.",
        ("reason",),
    ),
    Definition(
        "agentmem_off_policy_ratio",
        Kind.GAUGE,
        "Of the last off-policy update: share of tokens masked, mean ratio, effective sample size (reason).",
        ("reason",),
    ),
    Definition("agentmem_served_version_count", Kind.GAUGE, "Oldest weight version that an engine serves."),
    Definition("agentmem_trained_version_count", Kind.GAUGE, "Weight version of the learner."),
    Definition(
        "agentmem_staleness_updates", Kind.GAUGE, "Mean age of the last update's tokens, in versions."
    ),
    Definition(
        "agentmem_push_duration_seconds", Kind.HISTOGRAM, "A weight push, by phase.", ("reason",), _SECONDS
    ),
    Definition(
        "agentmem_update_duration_seconds",
        Kind.HISTOGRAM,
        "A learner update, by phase.",
        ("reason",),
        _SECONDS,
    ),
    Definition("agentmem_idle_ratio", Kind.GAUGE, "Share of time without work, by role.", ("role",)),
    Definition("agentmem_buffer_bytes", Kind.GAUGE, "Payload bytes in the replay buffer."),
    Definition("agentmem_buffer_budget_bytes", Kind.GAUGE, "Bytes that the replay buffer may hold."),
    Definition("agentmem_table_bytes", Kind.GAUGE, "Part of the buffer's bytes that the replay table holds."),
    Definition("agentmem_table_groups_count", Kind.GAUGE, "Groups of the replay table."),
    Definition("agentmem_table_drawn_trials_total", Kind.COUNTER, "Trials drawn from the replay table."),
    Definition(
        "agentmem_table_groups_total",
        Kind.COUNTER,
        "Groups at the replay table (reason: inserted, sampled, evicted, refused, limited).",
        ("reason",),
    ),
    Definition("agentmem_blocked_producers_count", Kind.GAUGE, "Producers that wait for buffer space now."),
    Definition("agentmem_blocked_seconds_total", Kind.COUNTER, "Producers waiting for buffer space."),
    Definition("agentmem_restarts_total", Kind.COUNTER, "Actors restarted, by role.", ("role",)),
    Definition("agentmem_drops_total", Kind.COUNTER, "Work dropped, by reason.", ("reason",)),
    Definition("agentmem_last_update_timestamp_seconds", Kind.GAUGE, "Unix time of the last update."),
)

_SUMS = (
    Definition(d.sum_name, Kind.COUNTER, f"Sum of: {d.help}", d.tags)
    for d in _DEFINITIONS
    if d.kind is Kind.HISTOGRAM
)

METRICS: dict[str, Definition] = {d.name: d for d in (*_DEFINITIONS, *_SUMS)}

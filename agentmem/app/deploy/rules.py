"""Alert rules: what somebody should be woken for, or should know. Each has its line in docs/runbook.md.

Expressions are written in our metrics' names, and windows and limits are settings, so that tests and small
runs can have shorter ones. Where a gauge's absence would make an expression empty, and so silent, a second
rule watches the absence. Counters of processes that died stay; hence increases, never raw sums.
"""

from __future__ import annotations

from typing import Annotated, Any

import yaml
from pydantic import Field

from agentmem.app.deploy.names import promql
from agentmem.config.section import Count, Fraction, NonNegative, Section
from agentmem.memory.advice_health import COLLAPSED, LEAST

RUNBOOK = "docs/runbook.md"
HEAD = "# Made by `agentmem deploy render` from agentmem/app/deploy; changes belong there.\n"

Window = Annotated[str, Field(pattern=r"^[1-9][0-9]*[smhd]$")]


class AlertSettings(Section):
    """Windows as Prometheus writes them (`90s`, `15m`), and limits."""

    look: Window = "2m"
    """Window of rates: at least four scrapes, and four of Ray's exports (10 s each)."""
    stalled: Window = "10m"
    """No trial, or no update (unless an evaluation is played), for so long is a stall."""
    starving: Window = "15m"
    """How long the learner must have been idle."""
    starving_share: Fraction = 0.8
    """Share of time without work from which the learner starves."""
    staleness: Window = "15m"
    """How long staleness must have grown."""
    staleness_limit: NonNegative = 2
    """Below it, growth is nothing to worry about (versions)."""
    buffer: Window = "5m"
    buffer_share: Fraction = 0.9
    """Share of the byte budget from which the buffer is nearly full."""
    restarts: Window = "10m"
    restarts_limit: Count = 3
    """So many restarts of a role within the window are a storm."""
    accounting: Window = "1m"
    serving: Window = "5m"
    """How long engines may stay behind."""
    serving_limit: Count = 4
    """Versions that engines may be behind (more than `weights.every`)."""
    steps: Window = "10m"
    """Within it, one step with gradients that aren't finite is told."""
    advice: Window = "30m"
    advice_least: Count = LEAST
    """Decisions of a memory policy in the window before its share of abstentions counts."""
    advice_share: Fraction = COLLAPSED
    """Abstention below this share, or above one minus it, has collapsed."""
    gone: Window = "15m"
    """For so long a run whose metrics vanished with updates left is missed."""
    missing: Window = "1m"
    """... and for so long they must have been away before it is (shorter than `gone`)."""


def rules(prefix: str = "", settings: AlertSettings | None = None) -> dict[str, Any]:
    """The content of a rules file of Prometheus."""
    s = settings or AlertSettings()
    waiting = "(max by (run) (agentmem_queued_tickets) + max by (run) (agentmem_running_tickets))"
    trials = f"sum by (run) (increase(agentmem_trials_total[{s.look}]))"
    done = "max by (run) (agentmem_done_updates_count)"
    planned = "max by (run) (agentmem_planned_updates_count)"
    last_done = f"max by (run) (last_over_time(agentmem_done_updates_count[{s.gone}]))"
    last_planned = f"max by (run) (last_over_time(agentmem_planned_updates_count[{s.gone}]))"
    # A learner that waits for an evaluation isn't stalled as long as its trials end.
    evaluated = f"max by (run) (agentmem_evaluations_count) > 0 and {trials} > 0"
    stale = "max by (run) (agentmem_staleness_updates)"
    behind = "max by (run) (agentmem_trained_version_count) - min by (run) (agentmem_served_version_count)"
    told = f"sum by (run) (increase(agentmem_advice_decisions_total[{s.advice}]))"
    silent = f'sum by (run) (increase(agentmem_advice_decisions_total{{reason="abstain"}}[{s.advice}]))'
    # A policy that has never abstained has no such series: it counts as 0, not as nothing.
    share = f"(({silent} or {told} * 0) / {told})"
    low, high = s.advice_share, round(1 - s.advice_share, 6)
    # Increases are extrapolated to the window's ends: 3 may read 2.9. Hence the half below the limit.
    alerts = [
        _alert(
            "AgentMemRolloutStalled",
            f"({trials} or {waiting} * 0) == 0 and {waiting} > 0",
            s.stalled,
            "critical",
            "Run {{ $labels.run }}: no trial has ended for " + s.stalled + " though tickets wait.",
        ),
        _alert(
            "AgentMemLearnerStalled",
            f"(sum by (run) (increase(agentmem_updates_total[{s.look}])) or {done} * 0) == 0"
            f" and {done} < {planned} unless ({evaluated})",
            s.stalled,
            "critical",
            "Run {{ $labels.run }}: no update for " + s.stalled + " though some are left.",
        ),
        _alert(
            "AgentMemRunGone",
            f"({last_done} < {last_planned}) unless {planned}",
            s.missing,
            "critical",
            "Run {{ $labels.run }}: its metrics vanished with updates left.",
        ),
        _alert(
            "AgentMemLearnerStarving",
            f'min by (run) (avg_over_time(agentmem_idle_ratio{{role="learner"}}[{s.look}]))'
            f" > {s.starving_share:g}",
            s.starving,
            "warning",
            "Run {{ $labels.run }}: the learner is idle {{ $value | humanizePercentage }} of the time.",
        ),
        _alert(
            "AgentMemStalenessGrowing",
            f"({stale} > {s.staleness_limit})"
            f" and max by (run) (deriv(agentmem_staleness_updates[{s.staleness}])) > 0",
            s.staleness,
            "warning",
            "Run {{ $labels.run }}: tokens are {{ $value | humanize }} versions old, and it grows.",
        ),
        _alert(
            "AgentMemBufferNearBudget",
            "max by (run) (agentmem_buffer_bytes) / max by (run) (agentmem_buffer_budget_bytes)"
            f" > {s.buffer_share:g}",
            s.buffer,
            "warning",
            "Run {{ $labels.run }}: the replay buffer is {{ $value | humanizePercentage }} full.",
        ),
        _alert(
            "AgentMemRestartStorm",
            f"sum by (run, role) (increase(agentmem_restarts_total[{s.restarts}]))"
            f" > {s.restarts_limit - 0.5:g}",
            None,
            "critical",
            "Run {{ $labels.run }}: {{ $value | humanize }} restarts of {{ $labels.role }} in "
            + s.restarts
            + ".",
        ),
        _alert(
            "AgentMemAccountingBroken",
            "max by (run) (agentmem_unaccounted_tickets) > 0",
            s.accounting,
            "critical",
            "Run {{ $labels.run }}: {{ $value }} tickets are in no state or in two.",
        ),
        _alert(
            "AgentMemWeightsNotServed",
            f"{behind} > {s.serving_limit}",
            s.serving,
            "critical",
            "Run {{ $labels.run }}: an engine serves weights {{ $value }} versions old.",
        ),
        _alert(
            "AgentMemStepsNotFinite",
            f"sum by (run) (increase(agentmem_skipped_steps_total[{s.steps}])) > 0",
            None,
            "warning",
            "Run {{ $labels.run }}: steps were skipped for gradients that aren't finite.",
        ),
        _alert(
            "AgentMemAbstentionCollapsed",
            f"({share} < {low:g} or {share} > {high:g}) and {told} >= {s.advice_least}",
            None,
            "warning",
            "Run {{ $labels.run }}: the memory policy abstains in {{ $value | humanizePercentage }}.",
        ),
    ]
    for alert in alerts:
        alert["expr"] = promql(alert["expr"], prefix)
    return {"groups": [{"name": "agentmem", "interval": "15s", "rules": alerts}]}


def _alert(name: str, expr: str, lasting: str | None, severity: str, summary: str) -> dict[str, Any]:
    return {
        "alert": name,
        "expr": expr,
        **({"for": lasting} if lasting else {}),
        "labels": {"severity": severity},
        "annotations": {"summary": summary, "runbook_url": f"{RUNBOOK}#{name.lower()}"},
    }


def rules_text(prefix: str = "", settings: AlertSettings | None = None) -> str:
    """The rules file as text."""
    return HEAD + yaml.safe_dump(rules(prefix, settings), sort_keys=False, allow_unicode=True, width=1000)

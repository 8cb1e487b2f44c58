"""`agentmem status RUN`: one screen of text about a run that goes on, and its alarms.

What the run says of itself comes from its driver, what its tickets do from the replay server. Alarms are
those that these two show at once; with the address of a Prometheus, also its firing alerts of this run.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any

import msgspec

from agentmem.app.control.reading import Reading, ago
from agentmem.app.reporting.status import RunStatus
from agentmem.failures import ConfigError

LATE_UPDATE_S = 600.0
FULL_SHARE = 0.9
IDLE_SHARE = 0.8
BEHIND = 4
"""Weight versions."""
ASK_S = 10.0
STATES = ("queued", "running", "buffered", "trained", "filtered", "failed", "expired")


def alarms(reading: Reading) -> list[str]:
    """What is wrong, a line each, worst first. Pure."""
    s, c, found = reading.status, reading.counters, []
    if not c.identity_holds:
        found.append("the accounting is broken: submitted isn't the sum of all states")
    if not s.evaluating and s.update < s.updates and (s.since_update_s or 0.0) > LATE_UPDATE_S:
        found.append(f"the last update was {ago(s.since_update_s or 0.0)}")
    if s.version is not None and s.served is not None and s.version - s.served > BEHIND:
        found.append(f"an engine serves version {s.served}, the learner is at {s.version}")
    for kind, k in s.kinds.items():
        if k.refused:
            found.append(f"{kind}: {k.note}")
        elif not k.running and k.desired:
            found.append(f"{kind}: none runs, {k.desired} desired")
    for role, count in s.restarts.items():
        if s.restart_budget and count >= s.restart_budget:
            found.append(f"{role}: {count} restarts, the budget is spent")
    if s.byte_budget and c.buffer_bytes >= FULL_SHARE * s.byte_budget:
        found.append(f"the replay buffer is {c.buffer_bytes / s.byte_budget:.0%} full")
    if c.dead_letters:
        found.append(f"{c.dead_letters} tickets failed for good (agentmem buffer dead {s.run})")
    if s.learner_idle is not None and s.learner_idle > IDLE_SHARE:
        found.append(f"the learner is idle {s.learner_idle:.0%} of the time")
    return found


def firing(prometheus: str, run: str) -> list[str]:
    """Alerts of this run that fire at a Prometheus. Raises ConfigError if it can't be asked."""
    url = f"{prometheus.rstrip('/')}/api/v1/alerts"
    try:
        with urllib.request.urlopen(url, timeout=ASK_S) as answer:
            alerts = json.load(answer)["data"]["alerts"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"--prometheus {prometheus}: can't be asked for alerts: {error}") from error
    return [
        f"{a['labels']['alertname']}: {a['annotations'].get('summary', '')}"
        for a in alerts
        if a["state"] == "firing" and a["labels"].get("run") == run
    ]


def as_json(reading: Reading, alerts: Sequence[str]) -> str:
    """Everything, as one object."""
    tree: dict[str, Any] = {
        "status": msgspec.to_builtins(reading.status),
        "age_s": round(reading.age_s, 3),
        "stopped": reading.stopped,
        "tickets": msgspec.to_builtins(reading.counters),
        "identity_holds": reading.counters.identity_holds,
        "alarms": alarms(reading),
        "alerts": list(alerts),
    }
    return json.dumps(tree, indent=1)


def as_text(reading: Reading, alerts: Sequence[str] = ()) -> str:
    """One screen; one line for a run that doesn't go on."""
    s, c = reading.status, reading.counters
    if reading.stopped:
        return f"run {s.run} doesn't go on: {reading.stopped}; update {s.update} of {s.updates}"
    rows = [
        ("run", f"{s.run}, process {s.pid} on {s.host}" + (f", {s.metrics}" if s.metrics else "")),
        ("phase", s.phase),
        ("updates", _updates(s)),
        ("solved", "  ".join(f"p@{k} {p:.2f}" for k, p in enumerate(s.p_at_k, start=1)) or "–"),
        (
            "speed",
            f"{s.trials_per_s:,.1f} trials/s  {s.episodes_per_s:,.1f} episodes/s  "
            f"{s.turns_per_s:,.1f} turns/s  {s.sampled_tokens_per_s:,.0f} sampled tokens/s",
        ),
        ("staleness", _staleness(s)),
        ("idle", f"learner {_share(s.learner_idle)}  rollout {_share(s.rollout_idle)}"),
        ("tickets", f"submitted {c.submitted} = " + " + ".join(f"{x} {getattr(c, x)}" for x in STATES)),
        ("", "the identity holds" if c.identity_holds else "THE IDENTITY IS BROKEN"),
    ]
    if c.eval_queued or c.eval_running:
        rows.append(("evaluation", f"queued {c.eval_queued}  running {c.eval_running}  done {c.eval_done}"))
    rows += [
        ("groups", f"open {c.groups_open}  ready {c.groups_ready}  taken {c.groups_taken}"),
        ("queues", _queues(s)),
        ("buffer", f"{c.buffer_bytes / 2**20:.1f} of {s.byte_budget / 2**20:,.0f} MiB"),
    ]
    for kind, k in s.kinds.items():
        more = f", {k.leaving} leaving" if k.leaving else ""
        more += f", wished for {k.wished}" if k.wished is not None else ""
        more += f", load {k.load:.2f}" if k.load is not None else ""
        more += f" ({k.note})" if k.note else ""
        rows.append((kind, f"{k.running} of {k.desired}{more}"))
    rows.append(("restarts", "  ".join(f"{role} {n}" for role, n in s.restarts.items() if n) or "none"))
    wrong = [*alarms(reading), *alerts]
    rows += [("alarms" if n == 0 else "", line) for n, line in enumerate(wrong or ["none"])]
    return "\n".join(f"{name:<15}{text}".rstrip() for name, text in rows)


def _updates(s: RunStatus) -> str:
    last = "none yet" if s.since_update_s is None else ago(s.since_update_s)
    return f"{s.update} of {s.updates}, the last {last}" + (
        f"; version {s.version}, served {s.served}" if s.version is not None else ""
    )


def _staleness(s: RunStatus) -> str:
    if s.staleness_mean is None:
        return "–"
    return f"{s.staleness_mean:.2f} versions (at most {s.staleness_max})"


def _queues(s: RunStatus) -> str:
    parts = [f"{s.in_flight} trials in flight"]
    if s.slots:
        parts.append("env places: " + ", ".join(f"{n} {name}" for name, n in s.slots.items()))
    for policy, e in s.engines.items():
        cache = f", cache {e.cache_share:.0%}" if e.cache_share else ""
        parts.append(
            f"engines.{policy}: {e.requests} requests on {e.places} places, {e.queued} queued{cache}"
        )
    return "; ".join(parts)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"

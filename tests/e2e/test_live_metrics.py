"""While a run trains, its Prometheus endpoint serves every metric that the run can have by then."""

from __future__ import annotations

import re
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path

from agentmem.telemetry import METRICS, Kind
from tests.e2e.runs import TINY, TORCH, Run

RARE = {
    "agentmem_restarts_total",
    "agentmem_drops_total",
    "agentmem_env_slots",
    "agentmem_expired_by_env_total",
    "agentmem_expired_by_length_total",
}
"""Only there when something of the kind has happened, or (slots) with env workers."""
OF_EMPO2 = {
    "agentmem_tips_total",
    "agentmem_tip_tokens_total",
    "agentmem_recalled_tips_total",
    "agentmem_mode_trials_total",
    "agentmem_mode_success_ratio",
    "agentmem_off_policy_ratio",
}
"""Only there in runs of that method."""
OF_MEMPI = {
    "agentmem_advice_total",
    "agentmem_advice_tokens_total",
    "agentmem_advice_choices_total",
    "agentmem_advice_decisions_total",
    "agentmem_advice_value",
    "agentmem_abstention_ratio",
    "agentmem_abstention_collapsed_count",
    "agentmem_generator_wait_seconds_total",
}
"""Likewise."""
OF_SERVICES = {
    "agentmem_advice_requests_total",
    "agentmem_advice_in_flight_requests",
    "agentmem_advice_duration_seconds",
    "agentmem_advice_seconds_total",
}
"""Of `agentmem advise serve`."""


def scrape(url: str, prefix: str = "agentmem_") -> dict[str, float]:
    """Series name -> sum over its labels, of names with a prefix."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    totals: dict[str, float] = {}
    for name, value in re.findall(rf"^({prefix}\w+)(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE):
        totals[name] = totals.get(name, 0.0) + float(value)
    return totals


def test_every_metric_is_served_while_a_run_trains(start: Callable[..., Run]) -> None:
    run = start("lamer-minesweeper-reflect", *TINY, *TORCH, "learner.updates=400", "evaluation.tasks=8")
    run.until_update(20)
    (url,) = re.findall(r"metrics: (http://\S+)", run.output())
    # Agents and engines are asked once a second, so their figures may be a little behind the updates.
    run.until(lambda: scrape(url).get("agentmem_served_version_count", 0) >= 18)
    series = scrape(url)
    for name, definition in METRICS.items():
        if name not in RARE | OF_EMPO2 | OF_MEMPI | OF_SERVICES:
            assert (f"{name}_count" if definition.kind is Kind.HISTOGRAM else name) in series, name
    assert series["agentmem_updates_total"] >= 20
    assert series["agentmem_sampled_tokens_total"] > 0
    assert series["agentmem_push_seconds_total"] > 0
    assert series["agentmem_done_updates_count"] >= 18
    assert series["agentmem_planned_updates_count"] == 400
    assert series["agentmem_unaccounted_tickets"] == 0
    assert series["agentmem_engine_requests_total"] > 0
    # One look at Redis gives all states; only a scrape in the middle of their export can miss some.
    run.until(lambda: adds_up(scrape(url)))


def adds_up(series: dict[str, float]) -> bool:
    """submitted = queued + running + buffered + trained + filtered + failed + expired"""
    states = [f"agentmem_{s}_tickets" for s in ("queued", "running", "buffered")]
    ends = [f"agentmem_{e}_tickets_total" for e in ("trained", "filtered", "failed", "expired")]
    return series["agentmem_submitted_tickets_total"] == sum(series[name] for name in (*states, *ends))


def test_a_run_sends_its_metrics_through_rays_endpoint(start: Callable[..., Run]) -> None:
    chosen = ("telemetry.backend=ray", "learner.updates=2000", "evaluation.tasks=0")
    run = start("lamer-minesweeper", *TINY, *TORCH, *chosen)
    run.until_update(2)
    assert "metrics: http" not in run.output()
    pattern = f"session_*_{run.process.pid}/metrics_export_port_*"
    (port,) = [path.read_text() for path in Path(tempfile.gettempdir(), "ray").glob(pattern)]

    def series() -> dict[str, float]:
        return scrape(f"http://127.0.0.1:{port}/metrics", "ray_agentmem_")

    run.until(lambda: series().get("ray_agentmem_done_updates_count", 0) >= 2)
    # Ray exports every ten seconds: what is counted and what is set come with it.
    run.until(lambda: series().get("ray_agentmem_trials_total", 0) > 0)
    assert series()["ray_agentmem_planned_updates_count"] == 2000
    assert series()["ray_agentmem_unaccounted_tickets"] == 0

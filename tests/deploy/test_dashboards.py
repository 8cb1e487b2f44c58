"""Dashboards: what is committed is what the code makes, Grafana's schemas take it, and no name is unknown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest

from agentmem.app.deploy.boards_memory import BOARDS
from agentmem.app.deploy.dashboards import as_json, dashboards
from agentmem.app.deploy.names import metrics_in, promql
from agentmem.app.deploy.panels import PanelSpec, Query, Row
from agentmem.failures import ConfigError
from agentmem.telemetry import METRICS, Kind
from tests.deploy.schemas import dashboard_problems

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"": ROOT / "deploy" / "grafana", "ray_": ROOT / "deploy" / "grafana" / "ray"}
UNSHOWN = {
    "agentmem_submitted_tickets_total",  # the sum of what is shown
    "agentmem_episodes_total",
}


def expressions(board: dict[str, Any]) -> list[str]:
    return [t["expr"] for panel in board["panels"] for t in panel.get("targets", [])]


def concrete(expression: str) -> str:
    """As Grafana sends it."""
    return expression.replace("$__rate_interval", "1m").replace("$run", ".*")


@pytest.mark.parametrize("prefix", FOLDERS)
def test_the_committed_dashboards_are_those_that_the_code_makes(prefix: str) -> None:
    made = dashboards(prefix)
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDERS[prefix].glob("*.json")} == made
    assert list(made) == ["overview.json", "rollout.json", "learner.json", "replay.json", "memory.json"]


@pytest.mark.parametrize("prefix", FOLDERS)
@pytest.mark.parametrize("name", ["overview", "rollout", "learner", "replay", "memory"])
def test_grafana_takes_a_dashboard(prefix: str, name: str) -> None:
    board = json.loads(dashboards(prefix)[f"{name}.json"])
    assert dashboard_problems(board) == []
    assert board["schemaVersion"] >= 39
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    places = {(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]}
    assert len(places) == len(ids)
    assert all(p["gridPos"]["x"] + p["gridPos"]["w"] <= 24 for p in board["panels"])


def test_a_typo_in_a_dashboard_is_found() -> None:
    board = json.loads(as_json(BOARDS[0]))
    board["panels"][1]["gridPoss"] = board["panels"][1].pop("gridPos")
    assert any("gridPoss" in problem for problem in dashboard_problems(board))
    board = json.loads(as_json(BOARDS[0]))
    board["panels"][1]["targets"][0]["legend"] = "x"
    assert any("query" in problem and "legend" in problem for problem in dashboard_problems(board))


@pytest.mark.parametrize("prefix", FOLDERS)
def test_every_expression_is_promql_over_defined_metrics(prefix: str) -> None:
    for text in dashboards(prefix).values():
        for expression in expressions(json.loads(text)):
            promql_parser.parse(concrete(expression))
            assert metrics_in(expression)
            assert re.findall(r"\b(?:ray_)?agentmem_", expression).count(f"{prefix}agentmem_") == len(
                re.findall("agentmem_", expression)
            )


def test_every_metric_but_what_follows_from_others_is_on_a_dashboard() -> None:
    shown = {
        m for text in dashboards().values() for e in expressions(json.loads(text)) for m in metrics_in(e)
    }
    sums = {d.sum_name for d in METRICS.values() if d.kind is Kind.HISTOGRAM}
    assert set(METRICS) - shown - sums <= UNSHOWN


def test_a_dashboard_with_an_unknown_metric_is_not_built() -> None:
    board = BOARDS[0]
    panel = PanelSpec("Trials", "", (Query("rate(agentmem_trails_total[1m])"),))
    wrong = type(board)(board.uid, board.title, board.about, (Row("Now", (panel,)),))
    with pytest.raises(ConfigError, match=r"agentmem_trails_total .* did you mean agentmem_trials_total\?"):
        as_json(wrong)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("up == 1", "names no metric of agentmem"),
        ("rate(agentmem_push_duration_seconds_sum[1m])", "is no series of a metric"),
        ("agentmem_push_duration_seconds", "is no series of a metric"),
        ("agentmem_trials_total_bucket", "is no series of a metric"),
    ],
)
def test_what_no_endpoint_serves_is_refused(expression: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        promql(expression)


def test_a_prefix_that_no_backend_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="prefix is 'ray': allowed are '', 'ray_'"):
        promql("agentmem_trials_total", "ray")

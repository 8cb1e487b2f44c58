"""Every expression of dashboards and rules answers on a real Prometheus that scrapes a real endpoint of ours.

The endpoint is given every metric that is defined, so an expression without an answer names a label, a tag or
a value of `reason` that nothing exports.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentmem.app.deploy.dashboards import dashboards
from agentmem.app.deploy.rules import AlertSettings, rules, rules_text
from agentmem.app.live.exports import DISTIL_VALUES, UPDATE_VALUES
from agentmem.telemetry import METRICS, Kind, Metrics
from agentmem.telemetry.prometheus import PrometheusBackend

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60.0
SHORT = AlertSettings(
    look="10s", stalled="2s", starving="2s", staleness="10s", buffer="2s", restarts="10s", accounting="1s",
    serving="2s", steps="10s", advice="10s", advice_least=1, gone="10s",
)  # fmt: skip
REASONS = {
    "agentmem_advice_total": ("generate", "abstain"),
    "agentmem_advice_decisions_total": ("generate", "abstain"),
    "agentmem_update_value": (*UPDATE_VALUES, *DISTIL_VALUES.values()),
    "agentmem_env_slots": ("busy", "free", "waiting"),
}
VALUES = {
    "agentmem_idle_ratio": 0.95,
    "agentmem_buffer_bytes": 95.0,
    "agentmem_buffer_budget_bytes": 100.0,
    "agentmem_planned_updates_count": 1e6,
    "agentmem_trained_version_count": 1e4,
    "agentmem_served_version_count": 3.0,
}
SUMS = {d.sum_name for d in METRICS.values() if d.kind is Kind.HISTOGRAM}
FIRING = {
    "AgentMemLearnerStarving",
    "AgentMemBufferNearBudget",
    "AgentMemRestartStorm",
    "AgentMemAccountingBroken",
    "AgentMemWeightsNotServed",
    "AgentMemStepsNotFinite",
}
"""What the endpoint's values are made for."""


def feed(metrics: Metrics, beat: int) -> None:
    """One round of everything: counters grow by one, gauges rise slowly."""
    for name, definition in METRICS.items():
        for reason in REASONS.get(name, ("learner",)):
            tags = {tag: "learner" if tag != "reason" else reason for tag in definition.tags}
            if definition.kind is Kind.HISTOGRAM:
                metrics.observe(name, 0.2, **tags)
            elif definition.kind is Kind.GAUGE:
                metrics.gauge(name, VALUES.get(name, 3 + beat / 10), **tags)
            elif name not in SUMS:  # these go with their histograms
                metrics.count(name, 1, **tags)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def ask(url: str, path: str, **parameters: Any) -> Any:
    with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=10) as r:
        return json.load(r)["data"]


def until(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + WAIT_S
    while True:
        try:
            found = condition()
        except (urllib.error.URLError, ConnectionError):
            found = None
        if found:
            return found
        assert time.monotonic() < end, f"after {WAIT_S:g} s: {what}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that has seen some seconds of an endpoint of ours, and goes on seeing it."""
    assert shutil.which("prometheus"), "prometheus isn't installed: requirements/install-envs.sh installs it"
    folder = tmp_path_factory.mktemp("prometheus")
    backend = PrometheusBackend()
    target = backend.url.removeprefix("http://").removesuffix("/metrics")
    (folder / "rules.yml").write_text(rules_text("", SHORT).replace("interval: 15s", "interval: 1s"))
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}\n"
        "rule_files: [rules.yml]\n"
        f"scrape_configs: [{{job_name: agentmem, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    url = f"http://127.0.0.1:{port}"
    metrics, beat = Metrics("lives", backend), 0

    def seen() -> bool:
        nonlocal beat
        assert process.poll() is None, (folder / "log").read_text()
        beat += 1
        feed(metrics, beat)
        query = 'count_over_time(agentmem_update_value{reason="lr"}[30s])'
        result = ask(url, "query", query=query)["result"]
        return bool(result) and float(result[0]["value"][1]) >= 12

    try:
        until(seen, f"no scrapes; see {folder / 'log'}")
        yield url
    finally:
        process.terminate()
        process.wait(timeout=20)
        backend.close()


def panels() -> list[tuple[str, str]]:
    return [
        (f"{name}: {panel['title']}", target["expr"])
        for name, text in dashboards().items()
        for panel in json.loads(text)["panels"]
        for target in panel.get("targets", [])
    ]


def test_every_panel_has_an_answer(prometheus: str) -> None:
    for where, expression in panels():
        query = expression.replace("$__rate_interval", "10s").replace("$run", "lives")
        query = query.replace("[1h]", "[10s]").replace("[10m]", "[10s]")
        assert ask(prometheus, "query", query=query)["result"], f"{where}: {query}"


def test_every_rule_is_healthy_and_those_fire_whose_time_has_come(prometheus: str) -> None:
    def group() -> Any:
        (found,) = ask(prometheus, "rules")["groups"]
        return {rule["name"]: rule for rule in found["rules"]}

    found = until(lambda: all(r["health"] == "ok" for r in group().values()) and group(), "rules unhealthy")
    assert set(found) == {rule["alert"] for rule in rules()["groups"][0]["rules"]}
    until(
        lambda: not FIRING - {name for name, rule in group().items() if rule["state"] == "firing"},
        "alerts don't fire",
    )


def test_a_dashboard_is_drawn_from_what_prometheus_has(
    prometheus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image

    spec = importlib.util.spec_from_file_location("draw", ROOT / "deploy" / "grafana" / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    draw = importlib.util.module_from_spec(spec)
    sys.modules["draw"] = draw  # a dataclass looks its module up
    spec.loader.exec_module(draw)
    out = tmp_path / "replay.png"
    board = ROOT / "deploy" / "grafana" / "replay.json"
    draw.main([str(board), prometheus, "-o", str(out), "--last", "30s", "--window", "10s"])
    assert f"{out}: 10 panels, 0 without data" in capsys.readouterr().out
    with Image.open(out) as picture:
        assert picture.width > 1000
        assert len(picture.convert("RGB").getcolors(1 << 24) or ()) > 50
    with pytest.raises(SystemExit, match="can't be asked"):
        draw.main([str(board), f"http://127.0.0.1:{free_port()}", "-o", str(out)])
    with pytest.raises(SystemExit, match="is no dashboard"):
        draw.main([str(tmp_path / "none.json"), prometheus])

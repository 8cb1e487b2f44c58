"""Alert rules: promtool takes them, each fires where it must and is silent where it must be."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from agentmem.app.deploy.names import metrics_in
from agentmem.app.deploy.rules import AlertSettings, rules, rules_text

ROOT = Path(__file__).resolve().parents[2]
CASES: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "alerts.yaml").read_text(encoding="utf-8")
)
STEP = "15s"
PREFIXES = ("", "ray_")


def promtool(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Debian's package prometheus has it (requirements/install-envs.sh)."""
    assert shutil.which("promtool"), "promtool isn't installed: requirements/install-envs.sh installs it"
    return subprocess.run(
        ["promtool", *arguments], cwd=cwd, text=True, capture_output=True, timeout=120, check=False
    )


def alerts(prefix: str = "") -> dict[str, dict[str, Any]]:
    (group,) = rules(prefix)["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def unit_tests(prefix: str) -> dict[str, Any]:
    """alerts.yaml as promtool reads it."""
    tests = []
    for name, cases in CASES.items():
        rule = alerts(prefix)[name]
        for case in cases:
            # Annotations are compared as well, so the test asks for the alert as Prometheus's own metric.
            checks = [
                {
                    "expr": f'ALERTS{{alertname="{name}", alertstate="firing"}}',
                    "eval_time": when,
                    "exp_samples": [
                        {"labels": series(name, rule["labels"]["severity"], labels), "value": 1}
                        for labels in fired
                    ],
                }
                for when, fired in case["fires"].items()
            ]
            tests.append(
                {
                    "interval": STEP,
                    "input_series": [
                        {"series": prefix + name_of, "values": str(values)}
                        for name_of, values in case["series"].items()
                    ],
                    "promql_expr_test": checks,
                }
            )
    return {"rule_files": ["rules.yml"], "evaluation_interval": STEP, "tests": tests}


def series(name: str, severity: str, labels: dict[str, str]) -> str:
    every = {"alertname": name, "alertstate": "firing", "severity": severity, **labels}
    return "ALERTS{" + ", ".join(f'{key}="{value}"' for key, value in every.items()) + "}"


@pytest.mark.parametrize("prefix", PREFIXES)
def test_an_alert_fires_where_it_must_and_nowhere_else(prefix: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(rules_text(prefix))
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(unit_tests(prefix)))
    done = promtool("test", "rules", "tests.yml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_test_that_fires_it_and_one_that_does_not() -> None:
    assert set(CASES) == set(alerts())
    for name, cases in CASES.items():
        fired = [labels for case in cases for labels in case["fires"].values()]
        assert any(fired), name
        silent = not all(fired) or any("well" in key for case in cases for key in case["series"])
        assert silent, name


def test_a_test_that_expects_the_wrong_thing_fails(tmp_path: Path) -> None:
    tests = unit_tests("")
    tests["tests"] = tests["tests"][:1]
    tests["tests"][0]["promql_expr_test"][-1]["exp_samples"] = []
    (tmp_path / "rules.yml").write_text(rules_text())
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(tests))
    assert promtool("test", "rules", "tests.yml", cwd=tmp_path).returncode != 0


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_committed_rules_are_those_that_the_code_makes_and_promtool_takes_them(prefix: str) -> None:
    name = "rules-ray.yml" if prefix else "rules.yml"
    folder = ROOT / "deploy" / "prometheus"
    assert (folder / name).read_text(encoding="utf-8") == rules_text(prefix)
    done = promtool("check", "rules", name, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    for rule in alerts(prefix).values():
        assert metrics_in(rule["expr"])


def test_every_alert_has_its_line_in_the_runbook() -> None:
    text = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    assert re.findall(r"^### (AgentMem\w+)$", text, re.MULTILINE) == list(alerts())
    for rule in alerts().values():
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert (page, anchor) == ("docs/runbook.md", rule["alert"].lower())


def test_windows_can_be_shorter() -> None:
    short = AlertSettings(stalled="20s", look="5s", restarts="30s")
    text = rules_text("", short)
    assert "increase(agentmem_trials_total[5s])" in text
    assert "increase(agentmem_restarts_total[30s])" in text
    assert "for: 20s" in text


@pytest.mark.parametrize("window", ["10", "1.5m", "soon", "0s"])
def test_a_window_that_prometheus_would_not_take_is_refused(window: str) -> None:
    with pytest.raises(ValidationError, match="stalled"):
        AlertSettings(stalled=window)

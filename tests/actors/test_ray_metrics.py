"""Metrics through Ray come out of the node's endpoint with the prefix, and gauges that stand still stay."""

from __future__ import annotations

import re
import time
import urllib.request
from typing import Any

import pytest

from actors.ray_metrics import PREFIX, RayBackend
from agentmem.telemetry import Metrics

WAIT_S = 90.0
"""Ray exports every ten seconds, and its agent takes some to come up."""


def scrape() -> dict[str, float]:
    """Series of ours, by name with the tags that are ours."""
    import ray

    (node,) = [n for n in ray.nodes() if n["Alive"]]
    url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            text = answer.read().decode()
    except OSError:  # its agent isn't up yet
        return {}
    found: dict[str, float] = {}
    for name, labels, value in re.findall(r"^(ray_agentmem_\w+)\{([^}]*)\} (\S+)$", text, re.MULTILINE):
        tags = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if tags.get("run") == "through-ray":
            ours = ",".join(
                f"{k}={v}" for k, v in sorted(tags.items()) if k in ("env", "reason", "role", "le")
            )
            found[f"{name} {ours}".strip()] = float(value)
    return found


def until(names: set[str]) -> dict[str, float]:
    end = time.monotonic() + WAIT_S
    while True:
        found = scrape()
        if names <= set(found):
            return found
        assert time.monotonic() < end, (
            f"missing after {WAIT_S:g} s: {names - set(found)}; there: {set(found)}"
        )
        time.sleep(0.5)


@pytest.mark.usefixtures("cluster")
def test_metrics_come_out_of_the_nodes_endpoint_and_a_gauge_that_stands_still_stays() -> None:
    backend: Any = RayBackend()
    try:
        metrics = Metrics("through-ray", backend)
        metrics.total("agentmem_trials_total", 7, env="m")
        metrics.total("agentmem_restarts_total", 0, role="agent")  # Ray has no counter at 0
        metrics.gauge("agentmem_idle_ratio", 0.25, role="learner")
        metrics.observe("agentmem_push_duration_seconds", 0.3, reason="transfer")
        names = {
            f"{PREFIX}agentmem_trials_total env=m",
            f"{PREFIX}agentmem_idle_ratio role=learner",
            f"{PREFIX}agentmem_push_duration_seconds_count reason=transfer",
            f"{PREFIX}agentmem_push_seconds_total reason=transfer",
        }
        found = until(names)
        assert found[f"{PREFIX}agentmem_trials_total env=m"] == 7
        assert found[f"{PREFIX}agentmem_idle_ratio role=learner"] == 0.25
        assert found[f"{PREFIX}agentmem_push_seconds_total reason=transfer"] == pytest.approx(0.3)
        assert f"{PREFIX}agentmem_restarts_total role=agent" not in found
        # Counters move on; the gauge isn't set by us again.
        metrics.total("agentmem_trials_total", 9, env="m")
        end = time.monotonic() + WAIT_S
        while scrape().get(f"{PREFIX}agentmem_trials_total env=m") != 9:
            assert time.monotonic() < end
            time.sleep(0.5)
        assert scrape()[f"{PREFIX}agentmem_idle_ratio role=learner"] == 0.25
    finally:
        backend.close()

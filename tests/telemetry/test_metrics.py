"""The facade checks names and tags, reports totals once, and the endpoint serves what was set."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest

from agentmem.failures import ConfigError
from agentmem.telemetry import METRICS, Kind, Metrics
from agentmem.telemetry.definitions import TAGS
from agentmem.telemetry.prometheus import PrometheusBackend


@pytest.fixture
def endpoint() -> Iterator[PrometheusBackend]:
    backend = PrometheusBackend()
    yield backend
    backend.close()


def scrape(backend: PrometheusBackend) -> dict[str, float]:
    """Series -> value."""
    with urllib.request.urlopen(backend.url, timeout=30) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_a_total_reported_twice_counts_once(endpoint: PrometheusBackend) -> None:
    metrics = Metrics("r", endpoint)
    metrics.total("agentmem_trials_total", 7, env="m")
    metrics.total("agentmem_trials_total", 7, env="m")
    metrics.total("agentmem_trials_total", 9, env="m")
    assert scrape(endpoint)['agentmem_trials_total{env="m",run="r"}'] == 9


def test_a_total_whose_source_restarted_goes_on(endpoint: PrometheusBackend) -> None:
    metrics = Metrics("r", endpoint)
    metrics.total("agentmem_trials_total", 7, env="m")
    metrics.total("agentmem_trials_total", 2, env="m")
    assert scrape(endpoint)['agentmem_trials_total{env="m",run="r"}'] == 9


def test_a_histogram_has_an_exact_sum_beside_it(endpoint: PrometheusBackend) -> None:
    metrics = Metrics("r", endpoint)
    for seconds in (0.5, 1.25):
        metrics.observe("agentmem_push_duration_seconds", seconds, reason="transfer")
    series = scrape(endpoint)
    assert series['agentmem_push_duration_seconds_count{reason="transfer",run="r"}'] == 2
    assert series['agentmem_push_seconds_total{reason="transfer",run="r"}'] == 1.75


def test_undefined_names_wrong_kinds_and_wrong_tags_are_refused() -> None:
    metrics = Metrics("r", None)
    with pytest.raises(KeyError, match="is defined in"):
        metrics.gauge("agentmem_nonsense", 1)
    with pytest.raises(KeyError, match="no gauge"):
        metrics.gauge("agentmem_trials_total", 1)
    with pytest.raises(KeyError, match="has the tags"):
        metrics.count("agentmem_trials_total", 1, trial="17")


def test_every_definition_keeps_the_naming_rules() -> None:
    for name, definition in METRICS.items():
        assert name.startswith("agentmem_")
        assert set(definition.tags) <= set(TAGS)
        assert name.endswith("_total") == (definition.kind is Kind.COUNTER)
        assert bool(definition.buckets) == (definition.kind is Kind.HISTOGRAM)


def test_a_port_in_use_is_one_clear_line(endpoint: PrometheusBackend) -> None:
    port = int(endpoint.url.rsplit(":", 1)[1].split("/")[0])
    with pytest.raises(ConfigError, match=f"telemetry.port is {port}"):
        PrometheusBackend(port)

"""What parts count comes out of the endpoint under its name, and broken accounting shows."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator

import pytest

from actors.engine.protocol import EngineStats
from actors.rollout.agent_stats import AgentStats
from actors.rollout.env_service import ServiceStats
from agentmem.app.live.exports import (
    export_buffer,
    export_engines,
    export_fleet,
    export_skipped,
    export_update_values,
    unaccounted,
)
from agentmem.app.reporting.records import UpdateRecord
from agentmem.replay import Counters
from agentmem.telemetry import Metrics
from agentmem.telemetry.prometheus import PrometheusBackend


@pytest.fixture
def endpoint() -> Iterator[PrometheusBackend]:
    backend = PrometheusBackend()
    yield backend
    backend.close()


def scrape(backend: PrometheusBackend) -> dict[str, float]:
    """`name reason` (or policy, role) -> value."""
    with urllib.request.urlopen(backend.url, timeout=5) as answer:
        text = answer.read().decode()
    found = {}
    for name, labels, value in re.findall(r"^(agentmem_\w+)\{([^}]*)\} (\S+)$", text, re.MULTILINE):
        tag = re.search(r'(?:reason|policy|role)="([^"]*)"', labels)
        found[f"{name} {tag[1]}" if tag else name] = float(value)
    return found


def test_the_buffer_shows_its_budget_its_table_and_who_waits(endpoint: PrometheusBackend) -> None:
    counters = Counters(
        submitted=9, queued=4, running=3, buffered=2, groups_ready=5, bytes=70, replay_bytes=30,
        replay_groups=6, replay_drawn=8, replay_evicted=1, blocked_producers=2, retried=3, leases_expired=1,
        dead_letters=1, tips=12, tip_bytes=300,
    )  # fmt: skip
    export_buffer(Metrics("r", endpoint), counters, 1 << 20)
    found = scrape(endpoint)
    assert found["agentmem_unaccounted_tickets"] == 0
    assert found["agentmem_buffer_bytes"] == 100
    assert found["agentmem_buffer_budget_bytes"] == 1 << 20
    assert found["agentmem_table_bytes"] == 30
    assert found["agentmem_table_groups_count"] == 6
    assert found["agentmem_table_drawn_trials_total"] == 8
    assert found["agentmem_table_groups_total evicted"] == 1
    assert found["agentmem_groups_count ready"] == 5
    assert found["agentmem_blocked_producers_count"] == 2
    assert found["agentmem_retried_tickets_total"] == 3
    assert found["agentmem_expired_leases_total"] == 1
    assert found["agentmem_dead_letters_total"] == 1
    assert found["agentmem_held_tips_count"] == 12
    assert found["agentmem_tip_bytes"] == 300


@pytest.mark.parametrize(
    ("counters", "off"),
    [
        (
            Counters(
                submitted=7, queued=1, running=1, buffered=1, trained=1, filtered=1, failed=1, expired=1
            ),
            0,
        ),
        (Counters(submitted=7, queued=5), 2),
        (Counters(submitted=5, queued=7), 2),
        (Counters(eval_submitted=4, eval_done=3), 1),
        (Counters(submitted=1, eval_done=1), 2),
    ],
)
def test_tickets_that_are_nowhere_or_twice_are_counted(counters: Counters, off: int) -> None:
    assert unaccounted(counters) == off
    assert counters.identity_holds == (off == 0)


def test_what_dead_engines_did_stays_counted(endpoint: PrometheusBackend) -> None:
    metrics = Metrics("r", endpoint)
    dead = EngineStats(name="agent-0", version=3, in_flight=5, requests=100, steps=10, paused_s=1.5)
    lives = EngineStats(name="agent-1", version=4, in_flight=2, requests=7, steps=1, failed_updates=1)
    other = EngineStats(name="memory-0", version=9, in_flight=1, requests=1)
    export_engines(metrics, [dead, lives, other], [lives, other], learning="agent")
    export_engines(metrics, [dead, lives, other], [lives, other], learning="agent")
    found = scrape(endpoint)
    assert found["agentmem_engine_requests_total agent"] == 107
    assert found["agentmem_engine_requests_total memory"] == 1
    assert found["agentmem_engine_in_flight_requests agent"] == 2
    assert found["agentmem_engine_steps_total agent"] == 11
    assert found["agentmem_engine_paused_seconds_total agent"] == 1.5
    assert found["agentmem_engine_failed_swaps_total agent"] == 1
    assert found["agentmem_served_version_count"] == 4


def test_members_and_places_are_shown(endpoint: PrometheusBackend) -> None:
    agents = [
        AgentStats(name="agent-0", in_flight=3, limit=8, loop_lag_s=0.2, unwritten=1),
        AgentStats(name="agent-1", in_flight=4, limit=8, loop_lag_s=0.1),
    ]
    worker = ServiceStats(slots=16, busy=5, waiting=2, calls=9, hung=0, crashed=0, reclaimed=0, demoted=False)
    export_fleet(Metrics("r", endpoint), agents, [worker], {"agent": 2, "env_worker": 1, "engine": 1})
    found = scrape(endpoint)
    assert found["agentmem_members_count agent"] == 2
    assert found["agentmem_members_count env_worker"] == 1
    assert found["agentmem_in_flight_trials"] == 7
    assert found["agentmem_trial_places"] == 16
    assert found["agentmem_unwritten_trials"] == 1
    assert found["agentmem_agent_lag_seconds"] == 0.2
    assert found["agentmem_env_slots busy"] == 5
    assert found["agentmem_env_slots free"] == 11
    assert found["agentmem_env_slots waiting"] == 2


def test_an_update_without_a_step_says_why(endpoint: PrometheusBackend) -> None:
    metrics = Metrics("r", endpoint)
    export_skipped(metrics, {"empty": 0.0, "skipped_steps": 0.0}, applied=True)
    assert scrape(endpoint)["agentmem_skipped_updates_total non_finite"] == 0
    export_skipped(metrics, {"empty": 1.0, "skipped_steps": 0.0}, applied=False)
    export_skipped(metrics, {"empty": 0.0, "skipped_steps": 2.0}, applied=False)
    export_skipped(metrics, {"empty": 0.0, "skipped_steps": 1.0}, applied=True)
    found = scrape(endpoint)
    assert found["agentmem_skipped_updates_total empty"] == 1
    assert found["agentmem_skipped_updates_total non_finite"] == 1
    assert found["agentmem_skipped_steps_total"] == 3


def test_a_number_that_an_update_lacks_keeps_its_last_value(endpoint: PrometheusBackend) -> None:
    metrics = Metrics("r", endpoint)
    record = UpdateRecord(
        update=1, version=1, t=1.0, trials=4, p_at_k=[0.5], policy_loss=0.25, entropy=1.5, lr=1e-3
    )
    export_update_values(metrics, record)
    export_update_values(metrics, UpdateRecord(update=2, version=1, t=2.0, trials=4, p_at_k=[], lr=2e-3))
    found = scrape(endpoint)
    assert found["agentmem_update_value policy_loss"] == 0.25
    assert found["agentmem_update_value lr"] == 2e-3
    assert "agentmem_update_value value_loss" not in found

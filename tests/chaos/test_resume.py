"""A run whose driver is killed again and again consumes what an uninterrupted run consumes."""

from __future__ import annotations

import time
from collections import Counter

import psutil
import pytest

from tests.chaos.cluster import RAY_AGENTS_GONE_S, Cluster, end, gone, of_ray_itself, until
from tests.chaos.conftest import StartCluster

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

UPDATES = 60
POINTS = (
    "driver.issue",
    "learner.publish",
    "engine.swap",
    "agent.commit",
    "learner.checkpoint",
    "agent.episode",
    "env.turn",
    "engine.turn",
    "learner.checkpoint",
    "driver.issue",
)


def consumed(cluster: Cluster) -> Counter[str]:
    """Trial ids of the whole run."""
    return Counter(
        f"{group}-{member}" for u in cluster.updates() for group in u["groups"] for member in range(4)
    )


@pytest.mark.timeout(1500)
def test_ten_deaths_of_the_driver_change_nothing_about_what_is_consumed(live: StartCluster) -> None:
    plain = live(f"learner.updates={UPDATES}")
    assert plain.run.end() == 0
    killed = live(f"learner.updates={UPDATES}")
    for point in POINTS:
        killed.reach(point)
        family = killed.family()
        end(psutil.Process(killed.run.process.pid))
        killed.run.process.wait(30)
        own = [p for p in family if not of_ray_itself(p)]
        until(lambda own=own: all(gone(p) for p in own), 20.0, "orphans")  # type: ignore[misc]
        killed.release(point)
        killed.start(resume=True)
    last = time.monotonic()
    assert killed.run.end() == 0, killed.run.output()
    assert consumed(killed) == consumed(plain)
    assert set(consumed(plain).values()) == {1}
    assert all(u["trials"] == 16 for u in killed.updates())
    assert [u["update"] for u in killed.updates()] == list(range(1, UPDATES + 1))
    left = RAY_AGENTS_GONE_S - (time.monotonic() - last)
    until(lambda: all(gone(p) for p in family), max(left, 1.0), "Ray's agents are left")

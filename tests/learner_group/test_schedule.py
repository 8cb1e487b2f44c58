"""Learning rates."""

from __future__ import annotations

import pytest

from learner.schedule import Schedule, lr_factor


def factors(schedule: Schedule, updates: int = 100, warmup: int = 5) -> list[float]:
    return [
        lr_factor(u, updates=updates, warmup=warmup, schedule=schedule, min_ratio=0.1)
        for u in range(updates + 5)
    ]


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_it_rises_then_falls_to_the_floor_and_stays_there(schedule: Schedule) -> None:
    seen = factors(schedule)
    assert seen[:5] == sorted(seen[:5])
    assert 0 < seen[0] < 0.5
    assert seen[5] == 1.0
    assert seen[5:] == sorted(seen[5:], reverse=True)
    assert seen[99:] == pytest.approx([0.1] * 6)


def test_constant_stays_at_its_peak() -> None:
    assert set(factors("constant")[5:]) == {1.0}


def test_a_warm_up_longer_than_the_run_still_reaches_the_peak() -> None:
    assert max(factors("linear", updates=4, warmup=50)) == 1.0

"""Intervals of differences: against published examples, and what must hold for all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.evaluation.difference import difference, over_seeds
from agentmem.evaluation.pass_at_k import wilson

counts = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize(
    ("a", "b", "low", "high"),
    [  # Newcombe 1998, table II, method 10
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((10, 10), (0, 20), 0.6791, 1.0000),
    ],
)
def test_the_interval_is_newcombes(a: tuple[int, int], b: tuple[int, int], low: float, high: float) -> None:
    found = difference(wilson(*a), wilson(*b))
    assert (found.low, found.high) == pytest.approx((low, high), abs=6e-5)


@given(counts, counts)
def test_the_interval_holds_its_value_stays_in_bounds_and_turns_with_its_sides(
    a: tuple[int, int], b: tuple[int, int]
) -> None:
    one, other = difference(wilson(*a), wilson(*b)), difference(wilson(*b), wilson(*a))
    assert -1 - 1e-12 <= one.low <= one.value <= one.high <= 1 + 1e-12
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))


def test_over_seeds_is_students_interval_of_the_mean() -> None:
    found = over_seeds([0.1, 0.2, 0.3])
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx(
        (0.2, 0.2 - 4.3027 * 0.1 / 3**0.5, 0.2 + 4.3027 * 0.1 / 3**0.5)
    )


def test_one_seed_tells_nothing_of_the_others() -> None:
    assert over_seeds([0.3]) is None
    assert over_seeds([]) is None

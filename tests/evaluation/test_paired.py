"""Paired comparisons: by hand, and what must hold for any two evaluations."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.evaluation.paired import memory_gap, paired, sign_test, success_difference
from tests.evaluation.made import outcome

SHARES = st.dictionaries(st.integers(0, 20), st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1)


@pytest.mark.parametrize(
    ("wins", "losses", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 2 / 32), (8, 2, 2 * 56 / 1024), (3, 3, 1.0), (10, 1, 2 * 12 / 2048)],
)
def test_the_sign_test_is_the_exact_binomial_tail(wins: int, losses: int, p: float) -> None:
    assert sign_test(wins, losses) == pytest.approx(p)
    assert sign_test(losses, wins) == pytest.approx(p)


@given(st.integers(0, 60), st.integers(0, 60))
def test_a_p_value_is_in_the_unit_interval_and_falls_with_a_further_win_of_the_winner(a: int, b: int) -> None:
    p = sign_test(a, b)
    assert 0 < p <= 1
    if a >= b:
        assert sign_test(a + 1, b) <= p


def test_the_difference_is_over_common_tasks() -> None:
    found = paired({"x": 0.0, "y": 1.0, "a only": 1.0}, {"x": 1.0, "y": 0.5, "b only": 0.0})
    assert found.value == pytest.approx(0.25)
    assert (found.tasks, found.wins, found.losses) == (2, 1, 1)
    # Of two tasks a resample has (1, 1), (1, -.5), (-.5, -.5), so that the interval spans both ends.
    assert (found.low, found.high) == (-0.5, 1.0)
    with pytest.raises(ValueError, match="no task in common"):
        paired({"x": 1.0}, {"y": 1.0})


def test_the_bootstrap_agrees_with_the_normal_interval_where_that_holds() -> None:
    a = dict.fromkeys(range(400), 0.0)
    b = {n: float(n % 4 == 0) for n in range(400)}
    found = paired(a, b)
    half = 1.96 * math.sqrt(0.25 * 0.75 / 400)
    assert found.value == 0.25
    assert found.low == pytest.approx(0.25 - half, abs=0.005)
    assert found.high == pytest.approx(0.25 + half, abs=0.005)


@given(SHARES, st.integers(0, 3))
def test_nothing_differs_from_itself(values: dict[str | int, float], seed: int) -> None:
    found = paired(values, values, seed=seed)
    assert (found.value, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


@given(SHARES, SHARES)
def test_exchanging_the_two_turns_the_sign(a: dict[str | int, float], b: dict[str | int, float]) -> None:
    if not a.keys() & b.keys():
        return
    ab, ba = paired(a, b), paired(b, a)
    assert ab.value == pytest.approx(-ba.value)
    assert (ab.wins, ab.losses, ab.p) == (ba.losses, ba.wins, ba.p)
    assert ab.low <= ab.value + 1e-12
    assert ab.value <= ab.high + 1e-12
    assert ab == paired(a, b)


def test_several_trials_of_a_task_count_as_one_pair() -> None:
    a = [outcome(0, instance=1, sample=0), outcome(1, instance=1, sample=1), outcome(0, instance=2)]
    b = [outcome(2, instance=1, sample=0), outcome(1, instance=1, sample=1), outcome(0, instance=2)]
    at_1, at_2 = success_difference(a, b, 1), success_difference(a, b, 2)
    assert (at_1.value, at_1.tasks) == (0.0, 2)
    assert (at_2.value, at_2.wins, at_2.losses) == (0.25, 1, 0)


def test_the_memory_gap_is_what_memory_adds_at_each_k() -> None:
    with_memory = [outcome(2, instance=n) for n in range(3)] + [outcome(1, instance=3)]
    without = [outcome(0, instance=n) for n in range(3)] + [outcome(1, instance=3)]
    gap = memory_gap(with_memory, without, 3)
    assert [d.value for d in gap] == [0.0, 0.75, 0.75]

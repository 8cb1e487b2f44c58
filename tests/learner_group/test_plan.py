"""The batching plan's guarantees, for any lengths, budget and number of ranks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learner.batching.plan import Strategy, cost, plan

LENGTHS = st.lists(st.integers(1, 300), max_size=60)
STRATEGIES = st.sampled_from(["sorted", "packed"])


@given(LENGTHS, STRATEGIES, st.integers(1, 500), st.integers(1, 5), st.integers(1, 4), st.integers(0, 9))
def test_every_sequence_is_planned_exactly_once_within_the_budget(
    lengths: list[int], strategy: Strategy, budget: int, minibatches: int, ranks: int, seed: int
) -> None:
    weights = [1 + n % 3 for n in lengths]
    steps = plan(
        lengths, weights, strategy=strategy, budget=budget, minibatches=minibatches, ranks=ranks, seed=seed
    )
    assert sorted(i for step in steps for i in step.sequences()) == list(range(len(lengths)))
    assert len(steps) == min(minibatches, len(lengths))
    for step in steps:
        assert step.sequences()
        assert len(step.ranks) == ranks
        assert len({len(rank) for rank in step.ranks}) == 1
        for micro in (m for rank in step.ranks for m in rank):
            assert len(micro) < 2 or cost(lengths, micro, strategy) <= budget


@given(LENGTHS, STRATEGIES, st.integers(0, 3))
def test_the_plan_depends_on_its_arguments_alone(lengths: list[int], strategy: Strategy, seed: int) -> None:
    weights = [1] * len(lengths)

    def once() -> object:
        return plan(lengths, weights, strategy=strategy, budget=200, minibatches=3, ranks=2, seed=seed)

    assert once() == once()


def test_minibatches_have_about_equal_numbers_of_trained_tokens() -> None:
    weights = [1 + i % 7 for i in range(400)]
    steps = plan([10] * 400, weights, strategy="sorted", budget=1000, minibatches=4)
    sizes = [sum(weights[i] for i in step.sequences()) for step in steps]
    assert max(sizes) - min(sizes) <= 2 * 7


def test_ranks_get_about_equal_work() -> None:
    lengths = [5 + (i * 37) % 400 for i in range(100)]
    (step,) = plan(lengths, [1] * 100, strategy="sorted", budget=2000, ranks=4)
    loads = [sum(lengths[i] for micro in rank for i in micro) for rank in step.ranks]
    assert max(loads) - min(loads) <= max(lengths)


def test_sorting_wastes_little_padding() -> None:
    lengths = [50 + (i * 97) % 750 for i in range(200)]
    (step,) = plan(lengths, [1] * 200, strategy="sorted", budget=8192)
    computed = sum(cost(lengths, micro, "sorted") for micro in step.ranks[0])
    assert computed < 1.1 * sum(lengths)


@pytest.mark.parametrize("name", ["budget", "minibatches", "ranks"])
def test_a_number_below_one_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0"):
        plan([1], [1], **{"strategy": "sorted", "budget": 10, name: 0})  # type: ignore[arg-type]

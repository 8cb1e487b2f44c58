"""Weight versions across restarts of the learner."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentmem.app.training.lineage import Lineage

Steps = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4)), max_size=5)


def test_without_a_restart_ages_are_differences() -> None:
    assert [Lineage(7).age(v) for v in (7, 6, 2)] == [0, 1, 5]
    assert Lineage(7).oldest(3) == 4


def test_a_restored_version_gets_a_number_that_was_never_given_out() -> None:
    restored = Lineage(10).restored(12)
    assert restored == Lineage(13, ((10, 13),))
    assert Lineage.of(**restored.stored()) == restored


def test_nothing_published_since_the_checkpoint_needs_no_new_number() -> None:
    assert Lineage(10).restored(10) == Lineage(10)


def test_ages_count_updates_not_numbers() -> None:
    later = Lineage(10).restored(12).trained(15)
    assert [later.age(v) for v in (15, 14, 13)] == [0, 1, 2]
    assert [later.age(v) for v in (10, 9)] == [2, 3], "the checkpoint's weights are those of 13"
    assert [later.age(v) for v in (11, 12)] == [3, 4], "given up: by way of the checkpoint"


def test_the_strictest_bound_admits_the_present_number_alone() -> None:
    assert Lineage(10).restored(12).oldest(0) == 13


@given(Steps, st.integers(0, 9))
def test_the_oldest_version_of_an_age_has_that_age(steps: list[tuple[int, int]], age: int) -> None:
    """Each step: so many updates, then a restart that loses the last few of what was published."""
    lineage = Lineage()
    for updates, lost in steps:
        lineage = lineage.trained(lineage.version + updates)
        lineage = lineage.restored(lineage.version + lost)
    oldest = lineage.oldest(age)
    if age == 0:
        assert oldest == lineage.version
    else:
        assert lineage.age(oldest) <= age
        assert lineage.age(oldest - 1) > age

"""Repeat-failure, fixation, entropy and worst task, by hand and as properties."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.evaluation.behaviour import (
    entropy,
    fixation,
    repeat_failure,
    trajectory_entropy,
    unusable,
    worst_task,
)
from tests.evaluation.made import episode, outcome, trial

ACTIONS = st.lists(st.sampled_from("ab"), max_size=3)


def test_losing_twice_by_the_same_actions_is_a_repeated_failure() -> None:
    lines = [
        trial(episode("ab"), episode("ab"), episode("ab")),  # two later episodes, both repeated
        trial(episode("ab"), episode("ba"), episode("ab")),  # the third repeats the first
        trial(episode("ab"), episode("ab", solved=True)),  # won by what lost before: chance, no failure
        trial(episode("ab", solved=True)),  # no later episode
    ]
    share = repeat_failure(lines)
    assert share is not None
    assert (share.value, share.n) == (3 / 5, 5)


@pytest.mark.parametrize("nothing", [(), ("", "")])
def test_an_episode_without_an_action_repeats_nothing(nothing: tuple[str, ...]) -> None:
    share = repeat_failure([trial(episode(nothing), episode(nothing))])
    assert share is not None
    assert (share.value, share.n) == (0.0, 1)
    assert fixation([trial(episode(nothing))]) is None


def test_answers_without_a_usable_action_are_counted() -> None:
    share = unusable([trial(episode("ab"), msgspec.structs.replace(episode(("", "a")), invalid=1))])
    assert share is not None
    assert (share.value, share.n) == (0.25, 4)
    assert unusable([trial(episode(()))]) is None


def test_another_trials_failure_is_no_repetition() -> None:
    share = repeat_failure([trial(episode("a"), episode("b")), trial(episode("b"), episode("a"))])
    assert share is not None
    assert share.value == 0.0


def test_what_was_never_tried_twice_has_no_rate() -> None:
    assert repeat_failure([trial(episode("ab"))]) is None
    assert fixation([trial(episode("a"), episode("a"))]) is None
    assert trajectory_entropy([trial(instance=1), trial(instance=2)]) is None
    assert worst_task([trial(instance=1), trial(instance=2)], 1) is None


def test_fixation_counts_turns_that_repeat_the_turn_before() -> None:
    share = fixation([trial(episode("aab"), episode("bb")), trial(episode(["a", "", "a", "b"]))])
    assert share is not None
    assert (share.value, share.n) == (2 / 4, 4)


@given(st.lists(ACTIONS, min_size=1, max_size=4))
def test_playing_all_episodes_again_repeats_each_of_them(
    plays: list[list[str]],
) -> None:
    once = trial(*map(episode, plays))
    twice = trial(*map(episode, plays + plays))
    first, second = repeat_failure([once]), repeat_failure([twice])
    assert second is not None
    assert 0 <= second.value <= 1
    repeated = round(second.value * second.n) - (round(first.value * first.n) if first else 0)
    assert repeated == sum(bool(play) for play in plays)


def test_entropy_by_hand() -> None:
    assert entropy("aaaa") == 0.0
    assert entropy("aabb") == pytest.approx(math.log(2))
    assert entropy("aab") == pytest.approx(-(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3)))
    with pytest.raises(ValueError, match="no trajectory"):
        entropy([])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_entropy_lies_between_zero_and_the_log_of_the_number(seen: list[int]) -> None:
    value = entropy(seen)
    assert 0.0 <= value <= math.log(len(seen)) + 1e-12
    assert entropy(seen * 3) == pytest.approx(value)
    assert (value == 0.0) == (len(set(seen)) == 1)


def test_trajectory_entropy_is_the_mean_over_tasks_and_reads_whole_trials() -> None:
    same_start = [
        trial(episode(path="x"), episode(path=last), instance=1, sample=n) for n, last in enumerate("yz")
    ]
    always_the_same = [trial(episode(path="x"), instance=2, sample=n) for n in range(2)]
    alone = [trial(episode(path="q"), instance=3)]
    found = trajectory_entropy([*same_start, *always_the_same, *alone])
    assert found is not None
    assert found.value == pytest.approx(math.log(2) / 2)
    assert (found.tasks, found.trials) == (2, 2.0)


def test_the_worst_task_is_the_one_of_least_success_among_those_tried_often_enough() -> None:
    lines = [
        outcome(1, instance="easy", sample=0),
        outcome(2, instance="easy", sample=1),
        outcome(3, instance="hard", sample=0),
        outcome(0, instance="hard", sample=1),
        outcome(0, instance="once"),
    ]
    worst = worst_task(lines, 3)
    assert worst is not None
    assert (worst.instance, worst.value, worst.trials) == ("hard", 0.5, 2)
    assert (worst.shared_by, worst.tasks) == (1, 2)
    once = worst_task(lines, 3, min_trials=1)
    assert once is not None
    assert (once.instance, once.value, once.tasks) == ("once", 0.0, 3)

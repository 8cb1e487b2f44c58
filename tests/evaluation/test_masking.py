"""What hiding a piece of memory changes is counted in the second episode, behind the same first one."""

from __future__ import annotations

import pytest

from agentmem.evaluation.masking import second_episode
from tests.evaluation.made import outcome


def test_the_fall_is_paired_by_task_over_second_episodes() -> None:
    remembered = [
        outcome(1, instance=0),  # won at once: it has no second episode
        outcome(2, instance=1),
        outcome(2, instance=2),
        outcome(3, instance=3),
        outcome(0, instance=4),
        outcome(2, instance=5),  # not played again
    ]
    masked = [outcome(n, instance=i) for i, n in ((1, 0), (2, 2), (3, 2), (4, 3))]
    kept, hidden, difference = second_episode(remembered, masked)
    assert (kept, hidden) == (0.5, 0.5)
    assert (difference.tasks, difference.wins, difference.losses) == (4, 1, 1)
    kept, hidden, difference = second_episode(remembered, masked[:2])
    assert (kept, hidden, difference.value) == (1.0, 0.5, -0.5)


def test_samples_and_seeds_of_a_task_are_told_apart() -> None:
    remembered = [outcome(2, instance=1, sample=0), outcome(0, instance=1, sample=1, seed=0)]
    kept, hidden, difference = second_episode(remembered, [outcome(0, instance=1, sample=1)])
    assert (kept, hidden, difference.value) == (0.0, 0.0, 0.0)


def test_without_a_second_episode_there_is_nothing_to_say() -> None:
    with pytest.raises(ValueError, match="no trial has a second episode"):
        second_episode([outcome(1, instance=0)], [])

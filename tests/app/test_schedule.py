"""Tickets depend on seed and group number alone, so that a resumed run issues the same ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentmem.app.training.schedule import TaskSchedule
from agentmem.evaluation.held_out import evaluation_tickets
from agentmem.trajectory import Mode, Split


def schedule(n: int = 10, seed: int = 0) -> TaskSchedule:
    return TaskSchedule("minesweeper", range(n), seed=seed, group_size=4, mode=Mode(episodes=3))


@given(st.integers(1, 30), st.integers(0, 5), st.integers(0, 100))
def test_a_fresh_schedule_gives_the_same_ticket_for_the_same_number(n: int, seed: int, group: int) -> None:
    used = schedule(n, seed)
    for earlier in range(group):
        used.tickets(earlier)
    assert used.tickets(group) == schedule(n, seed).tickets(group)


def test_every_instance_comes_once_before_any_comes_again() -> None:
    tasks = schedule()
    first, second = ([tasks.instance(g) for g in range(start, start + 10)] for start in (0, 10))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_members_of_a_group_share_the_task() -> None:
    tickets = schedule().tickets(3)
    assert [t.member for t in tickets] == [0, 1, 2, 3]
    assert len({t.id for t in tickets}) == 4
    assert len({t.task for t in tickets}) == 1


def test_evaluation_tries_the_same_tasks_each_time_and_never_as_training() -> None:
    before, after = (
        evaluation_tickets("minesweeper", range(100), 20, seed=1, batch=b, mode=Mode(episodes=3))
        for b in ("before", "after")
    )
    assert [t.task.instance for t in before] == [t.task.instance for t in after]
    assert {t.task.split for t in before} == {Split.EVAL}
    assert not {t.id for t in before} & {t.id for t in after}


def test_the_members_of_a_structured_group_have_their_branches() -> None:
    from agentmem.config.advice import AdviceConfig

    branches = AdviceConfig(group=4, runs_abstain=2).branches()
    tasks = TaskSchedule(
        "doors", range(3), seed=0, group_size=5, mode=Mode(method="mempi"), branches=branches
    )
    for group in range(4):
        told = [ticket.mode.advice for ticket in tasks.tickets(group)]
        assert told == ["abstain", "abstain", "generate", "generate", "generate"]
    assert {ticket.mode.advice for ticket in schedule().tickets(0)} == {""}

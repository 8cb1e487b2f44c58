"""Tickets depend on seed and group number alone, so that a resumed run issues the same ones."""

from __future__ import annotations

from hypothesis import given, settings
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


MIXED = [*(f"@a#{i}" for i in range(5)), *(f"@b/x{i}" for i in range(40)), *(f"@c#{i}" for i in range(7))]


def mixed(seed: int = 0, **weights: float) -> TaskSchedule:
    return TaskSchedule("mixture", MIXED, seed=seed, group_size=4, mode=Mode(), weights=weights)


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from("abc"), st.floats(0.05, 20), min_size=3),
    st.integers(1, 200),
)
def test_domains_take_turns_by_their_weights(weights: dict[str, float], groups: int) -> None:
    tasks = mixed(**weights)
    domains = [tasks.tickets(g)[0].task.domain for g in range(groups)]
    for domain, weight in weights.items():
        assert abs(domains.count(domain) - groups * weight / sum(weights.values())) < 2


@settings(deadline=None)
@given(st.integers(0, 5), st.lists(st.integers(0, 120), min_size=1, max_size=20))
def test_a_mixtures_groups_are_the_same_in_whatever_order_they_are_asked_for(
    seed: int, asked: list[int]
) -> None:
    used = mixed(seed, a=1, b=3, c=0.5)
    for group in asked:
        assert used.tickets(group) == mixed(seed, a=1, b=3, c=0.5).tickets(group)


def test_a_group_is_one_instance_of_one_domain_and_every_update_has_its_shares() -> None:
    tasks = mixed(a=1, b=2, c=1)
    for update in range(10):
        groups = [tasks.tickets(16 * update + g) for g in range(16)]
        assert all(len({ticket.task.instance for ticket in group}) == 1 for group in groups)
        domains = [group[0].task.domain for group in groups]
        assert {d: domains.count(d) for d in "abc"} == {"a": 4, "b": 8, "c": 4}


def test_a_domains_instances_come_in_the_order_in_which_they_would_come_alone() -> None:
    alone = TaskSchedule("x", range(5), seed=3, group_size=4, mode=Mode())
    tasks = mixed(3, a=1, b=2, c=1)
    own = [i for g in range(60) if str(i := tasks.instance(g)).startswith("@a")]
    assert own == [f"@a#{alone.instance(n)}" for n in range(len(own))]

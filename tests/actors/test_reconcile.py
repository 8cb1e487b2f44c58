"""Reconciliation and placement as functions over data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.parts import parts_of, scalable, sized
from actors.placement import Request, find_room, lacking, require, unplaced
from actors.reconcile import Member, State, reconcile
from agentmem.config import load_config
from agentmem.failures import ResourceError


def members(*states: State) -> list[Member]:
    return [Member(f"m-{n}", state, "cause" if state is State.DEAD else "") for n, state in enumerate(states)]


def test_nothing_is_done_where_all_is_as_desired() -> None:
    plan = reconcile(2, members(State.RUNNING, State.STARTING), restarts=0, budget=3)
    assert (plan.remove, plan.stop, plan.start, plan.restarts, plan.exhausted) == ((), (), 0, 0, "")


def test_the_first_start_costs_no_restart() -> None:
    plan = reconcile(3, [], restarts=0, budget=0)
    assert plan.start == 3
    assert plan.restarts == 0
    assert not plan.exhausted


def test_the_dead_are_replaced_within_the_budget() -> None:
    plan = reconcile(2, members(State.RUNNING, State.DEAD), restarts=2, budget=3)
    assert plan.remove == ("m-1",)
    assert plan.start == plan.restarts == 1
    assert not plan.exhausted


def test_a_spent_budget_names_the_cause() -> None:
    assert reconcile(2, members(State.DEAD, State.RUNNING), restarts=3, budget=3).exhausted == "cause"


def test_a_dead_member_that_is_not_wanted_costs_nothing() -> None:
    plan = reconcile(1, members(State.RUNNING, State.DEAD), restarts=3, budget=3)
    assert plan.remove == ("m-1",)
    assert plan.start == plan.restarts == 0
    assert not plan.exhausted


def test_the_youngest_are_stopped_first() -> None:
    plan = reconcile(1, members(State.RUNNING, State.RUNNING, State.STARTING), restarts=0, budget=0)
    assert plan.stop == ("m-2", "m-1")


@given(
    desired=st.integers(0, 6),
    states=st.lists(st.sampled_from(list(State)), max_size=8),
    restarts=st.integers(0, 4),
    budget=st.integers(0, 4),
)
def test_a_plan_leads_to_the_desired_number(
    desired: int, states: list[State], restarts: int, budget: int
) -> None:
    plan = reconcile(desired, members(*states), restarts=restarts, budget=budget)
    living = sum(state in (State.STARTING, State.RUNNING) for state in states)
    assert living - len(plan.stop) + plan.start == desired
    assert plan.restarts <= plan.start
    assert not (plan.stop and plan.start)
    if not plan.exhausted:
        assert plan.restarts == 0 or restarts + plan.restarts <= budget


def test_what_lacks_is_named_with_who_asks_for_it() -> None:
    asked = [
        Request("engines.agent", count=2, cpus=1, gpus=2),
        Request("env.workers", count=3, cpus=1, custom={"env_worker": 1}),
    ]
    lines = lacking(asked, {"CPU": 8.0, "env_worker": 2.0})
    assert lines == [
        "4 GPU asked for by engines.agent (2) 4, the cluster has 0",
        "3 env_worker asked for by env.workers (3) 3, the cluster has 2",
    ]
    assert not lacking(asked, {"CPU": 5.0, "GPU": 4.0, "env_worker": 3.0})


def test_nothing_asked_for_is_always_there() -> None:
    require([Request("agents.replicas", count=4)], has={})


def test_a_cluster_without_gpus_refuses_an_engine_that_needs_four_at_once(cluster: None) -> None:
    with pytest.raises(ResourceError, match=r"4 GPU asked for by engines\.agent") as caught:
        require([Request("engines.agent", cpus=1, gpus=4)])
    assert "\n" not in str(caught.value)


def test_parts_find_room_only_where_one_node_has_all_that_they_ask_for() -> None:
    nodes = [{"CPU": 2.0, "env_worker": 1.0}, {"CPU": 3.0}]
    worker = Request("env.workers", count=1, cpus=1, custom={"env_worker": 1})
    assert unplaced([worker, Request("agents.replicas", count=4, cpus=1)], nodes) == []
    assert unplaced([Request("env.workers", count=2, cpus=1, custom={"env_worker": 1})], nodes) == [
        "env.workers: room for 1 of 2 (each asks for 1 CPU, 1 env_worker); "
        "free are 5 CPU, 1 env_worker on 2 nodes"
    ]
    assert unplaced([Request("engines.agent", count=1, cpus=4)], nodes) == [
        "engines.agent: room for 0 of 1 (each asks for 4 CPU); free are 5 CPU on 2 nodes"
    ]
    assert unplaced([Request("agents.replicas", count=9)], []) == []


@given(
    counts=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    nodes=st.lists(st.integers(0, 6), max_size=4),
)
def test_parts_of_one_cpu_have_room_if_there_are_cpus_for_all(counts: list[int], nodes: list[int]) -> None:
    requests = [Request(f"r{i}", count=n, cpus=1) for i, n in enumerate(counts)]
    lines = unplaced(requests, [{"CPU": float(n)} for n in nodes])
    assert bool(lines) == (sum(counts) > sum(nodes))


def test_what_the_cluster_never_has_is_said_at_once(cluster: None) -> None:
    said: list[str] = []
    asked = [Request("env.workers", count=2, cpus=0, custom={"env_worker": 1})]
    lacks = r"2 env_worker asked for by env\.workers \(2\) 2, the cluster has 0"
    with pytest.raises(ResourceError, match=lacks):
        find_room(asked, asked, machine_wait_s=0, say=said.append)
    assert said == []


def test_a_cluster_that_grows_is_waited_for_and_that_is_said(cluster: None) -> None:
    said: list[str] = []
    asked = [Request("env.workers", count=2, custom={"env_worker": 1})]
    lacks = r"no machines within 0\.5 s \(scaling\.machine_wait_s\): 2 env_worker"
    with pytest.raises(ResourceError, match=lacks):
        find_room(asked, asked, machine_wait_s=0.5, say=said.append)
    assert said == ["waiting for machines: 2 env_worker asked for by env.workers (2) 2, the cluster has 0"]


def test_a_run_has_the_kinds_of_its_configuration_and_other_numbers_on_wish() -> None:
    config = load_config("lamer-minesweeper", ["env.placement=worker", "env.workers=2"])
    assert scalable(config) == {"engines.agent": 1, "agents": 1, "env-workers": 2}
    wished = sized(config, {"env-workers": 6, "engines.agent": 3, "generators": 4, "engines.memory": 2})
    assert scalable(wished) == {"engines.agent": 3, "agents": 1, "env-workers": 6}
    local = load_config("lamer-minesweeper")
    assert scalable(sized(local, {"env-workers": 6})) == {"engines.agent": 1, "agents": 1}
    advised = load_config("mempi-doors", ["scaling.groups=true"])
    assert {part.resource for part in parts_of(advised).values()} >= {"generator", "engine_memory", "learner"}
    assert parts_of(advised)["agents"].options(alone=False) == {"num_cpus": 1, "resources": {"agent": 1.0}}
    assert parts_of(advised)["agents"].options(alone=True) == {"num_cpus": 0}

"""From trials to traces, from traces to jobs."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.failures import ConfigError, Failure, FailureKind
from agentmem.memory.bank.grouping import by_task, plan
from agentmem.memory.bank.records import Kind
from agentmem.memory.bank.traces import Trace, read_traces, traces_of
from agentmem.trajectory import Episode, StopReason, Trial
from tests.memory.banks import house, lost, traces, trial, won

TWO = trial("t0", "house/1", lost("left", ""), won("right", index=1))


def exported(one: Trial) -> bytes:
    """As `agentmem buffer export` writes it: NaN is null."""
    return msgspec.json.encode({"ticket": one.ticket, "place": "open", "owner": "g", "trial": one})


def test_each_episode_that_was_played_to_its_end_is_a_trace() -> None:
    crashed = Episode(
        index=2, initial_observation="the hall", turns=TWO.episodes[0].turns, stop=StopReason.ENV_FAILURE
    )
    failure = Failure(kind=FailureKind.INFRASTRUCTURE, what="gone")
    whole = msgspec.structs.replace(TWO, episodes=(*TWO.episodes, crashed), failure=failure)
    first, second = traces_of(whole)
    assert (first.source, first.success, first.actions) == ("t0:0", False, ("left", ""))
    assert (second.source, second.success, second.actions) == ("t0:1", True, ("right",))
    assert (first.task_text, first.first, first.last) == ("Leave the house.", "the hall", "a wall")


def test_an_export_and_bare_trials_give_the_same_traces(tmp_path: Path) -> None:
    file = tmp_path / "trials.jsonl"
    bare = {
        "ticket": "t0",
        "task": {"environment": "house", "instance": "house/1"},
        "instruction": "Leave the house.",
        "episodes": [
            {
                "initial_observation": e.initial_observation,
                "turns": [
                    {"observation": t.observation, "response": t.response, "actions": t.actions,
                     "reward": t.reward, "invalid": t.invalid}
                    for t in e.turns
                ],
                "stop": e.stop, "success": e.success, "final_observation": e.final_observation,
            }
            for e in TWO.episodes
        ],
    }  # fmt: skip
    file.write_bytes(exported(TWO) + b"\n" + json.dumps(bare).encode() + b"\n")
    whole, own = read_traces(file)
    assert whole == own == traces_of(TWO)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "line 2: no JSON"),
        (b"3", "line 2: a trial is needed, found int"),
        (b'{"ticket": "t", "error": "payload is damaged"}', "line 2: no trial, the buffer couldn't read it"),
        (b'{"ticket": "t"}', "line 2: no whole trial: Object missing required field `task`"),
        (
            b'{"ticket":"t","task":{"environment":"e","instance":1},"episodes":[{"turns":[]}]}',
            r"no whole trial: Object missing required field `initial_observation` - at `\$\.episodes\[0\]`",
        ),
        (
            b'{"condition":"with_memory","seed":0,"instance":3,"episodes":[{"actions":["up"]}]}',
            "holds actions but not what was seen",
        ),
    ],
)
def test_a_line_without_a_whole_trial_is_refused(line: bytes, told: str, tmp_path: Path) -> None:
    file = tmp_path / "trials.jsonl"
    file.write_bytes(exported(TWO) + b"\n" + line + b"\n")
    with pytest.raises(ConfigError, match=rf"trials\.jsonl, .*{told}"):
        list(read_traces(file))


@given(
    st.permutations(
        house(5) + traces(trial("other", "house/0", lost("left", "door 0"), instruction="Leave house 0."))
    )
)
def test_a_plan_does_not_depend_on_the_order_of_the_traces(shuffled: list[Trace]) -> None:
    whole = plan(by_task(house(5)), per_task=2)
    again = plan(by_task(shuffled), per_task=2)
    assert [job.name("w", ()) for job in again] == [job.name("w", ()) for job in whole]
    assert [[t.actions for t in job.traces] for job in again] == [
        [t.actions for t in job.traces] for job in whole
    ]


def test_a_course_that_was_played_twice_counts_once() -> None:
    twice = traces(trial("a", 1, won("up")), trial("b", 1, won("up")), trial("c", 1, won("down")))
    (task,) = by_task(twice)
    assert sorted(t.source for t in task.traces) == ["a:0", "c:0"]


def test_tasks_with_other_words_or_another_beginning_are_other_situations() -> None:
    same = traces(trial("a", 1, won("up")), trial("b", 1, won("up"), instruction="Stay."))
    assert len(by_task(same)) == 2
    with pytest.raises(ValueError, match="has no text"):
        by_task(traces(trial("a", 1, won("up"), instruction=" ")))


def test_a_pair_is_the_shortest_success_and_the_failure_that_parted_from_it_last() -> None:
    played = traces(
        trial("long", 1, won("up", "up", "left", "up")),
        trial("short", 1, won("up", "left", "up")),
        trial(
            "early",
            1,
            lost("down", "left", "up"),
        ),
        trial("late", 1, lost("up", "left", "down")),
    )
    (job,) = plan(by_task(played))
    assert job.kind is Kind.PAIR
    assert [t.source for t in job.traces] == ["short:0", "late:0"]
    assert [[t.source for t in j.traces] for j in plan(by_task(played), "pair", per_task=5)] == [
        ["short:0", "late:0"],
        ["long:0", "late:0"],
    ]


def test_single_traces_are_the_most_telling_ones() -> None:
    played = traces(
        trial("long", 1, won("up", "up", "left", "up")),
        trial("short", 1, won("up", "left", "up")),
        trial("far", 1, lost("down", score=0.1)),
        trial("near", 1, lost("up", "left", "down", score=0.9)),
        trial("none", 1, lost("up", "left", "down", "down")),
    )
    tasks = by_task(played)
    assert [t.source for j in plan(tasks, "success", per_task=9) for t in j.traces] == ["short:0", "long:0"]
    assert [t.source for j in plan(tasks, "failure", per_task=2) for t in j.traces] == ["near:0", "far:0"]
    (several,) = plan(tasks, "several", most=4)
    assert [t.source for t in several.traces] == ["short:0", "long:0", "near:0", "far:0"]
    (several,) = plan(tasks, "several", most=2)
    assert [t.source for t in several.traces] == ["short:0", "near:0"]


def test_without_the_traces_that_a_kind_needs_a_task_has_no_job() -> None:
    tasks = by_task(house(3))  # a failure, a success, both
    kinds = {kind: len(plan(tasks, kind)) for kind in ("success", "failure", "pair", "several", "auto")}
    assert kinds == {"success": 2, "failure": 2, "pair": 1, "several": 1, "auto": 3}
    assert [job.kind for job in plan(tasks)] == [Kind.FAILURE, Kind.SUCCESS, Kind.PAIR]
    failures = by_task(traces(trial("a", 1, lost("up")), trial("b", 1, lost("down"))))
    assert [job.kind for job in plan(failures)] == [Kind.SEVERAL]

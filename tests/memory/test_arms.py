"""Looked-up hints: the nearest record, learned abstention, learned values."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.memory.arms.choice import Gated, Nearest, Valued
from agentmem.memory.arms.gate import Played, threshold
from agentmem.memory.arms.memrl import ValuedMemories
from agentmem.memory.arms.shelf import Found, Shelf
from agentmem.memory.bank.records import BankRecord, Tokens
from agentmem.memory.embedding import load_embedder
from agentmem.trajectory import Split

TASKS = {
    "put a clean mug in the coffeemachine": "mugs are on countertops",
    "look at the watch under the desklamp": "watches lie on dressers",
    "cool some lettuce and put it in the fridge": "lettuce is in the fridge",
}


def record(q: str, m: str, o: str = "a kitchen") -> BankRecord:
    return BankRecord(
        id=f"{q}-{m}", domain="alfworld", task_id=q, seed=None, split=Split.TRAIN, q=q, o=o, m=m,
        sources=("t:0",), successes=1, failures=0, writer="w", prompt_version="1",
        tokens=Tokens(prompt=None, completion=None),
    )  # fmt: skip


@pytest.fixture(scope="module")
def shelf() -> Shelf:
    return Shelf([record(q, m) for q, m in TASKS.items()], load_embedder("words"))


@pytest.mark.parametrize("task", TASKS)
def test_the_nearest_situation_gives_its_hint(shelf: Shelf, task: str) -> None:
    first, second, third = shelf.nearest(task, "a kitchen", 3)
    assert first.record.m == TASKS[task]
    assert first.cosine == pytest.approx(1, abs=1e-5)
    assert first.cosine > second.cosine >= third.cosine


def test_the_hint_is_not_what_a_record_is_found_by(shelf: Shelf) -> None:
    (found,) = shelf.nearest("put a clean mug in the coffeemachine", "lettuce is in the fridge")
    assert found.record.m == "mugs are on countertops"


def test_nothing_is_found_for_nothing(shelf: Shelf) -> None:
    assert shelf.nearest("", " ") == ()
    with pytest.raises(ValueError, match="without records"):
        Shelf([], load_embedder("words"))


def test_while_something_is_learnt_a_task_does_not_find_its_own_record(shelf: Shelf) -> None:
    task = next(iter(TASKS))
    found = shelf.nearest(task, "a kitchen", 3, without={("alfworld", task)})
    assert len(found) == 2
    assert all(each.record.task_id != task for each in found)
    (nearest,) = shelf.nearest(task, "a kitchen", without={("doors", task)})
    assert nearest.record.task_id == task


def test_rules_choose_among_the_nearest() -> None:
    near, far = found(0, 0.8), found(1, 0.6)
    assert Nearest().choose([near, far]) is near
    assert Nearest().choose([]) is None
    assert Gated(0.8).choose([near]) is near
    assert Gated(0.9).choose([near]) is None
    assert Gated(math.inf).choose([near]) is None
    memories = ValuedMemories(2)
    memories.learn(1, 1.0)
    memories.learn(1, 1.0)
    assert Valued(memories).choose([near, far]) is near
    assert Valued(memories).candidates == 10


def test_abstention_is_learned_where_far_hints_hurt() -> None:
    near, far = [Played(0.9, 1, 0)] * 3, [Played(0.3, 0, 1)] * 5
    assert threshold([*near, *far]) == 0.9
    assert threshold(far) == math.inf
    assert threshold([Played(0.3, 1, 0), *near]) == 0.3


@pytest.mark.parametrize("tasks", [[], [Played(math.nan, 0, 0)], [Played(0.1, math.inf, 0)]])
def test_what_no_threshold_can_be_learned_from_is_refused(tasks: list[Played]) -> None:
    with pytest.raises(ValueError, match=r"no task|must be finite"):
        threshold(tasks)


played = st.builds(Played, st.sampled_from([0.1, 0.4, 0.4, 0.8]), st.integers(0, 1), st.integers(0, 1))


@given(st.lists(played, min_size=1, max_size=12))
def test_no_other_threshold_is_better(tasks: list[Played]) -> None:
    def reward(least: float) -> float:
        return sum(task.with_hint if task.cosine >= least else task.without for task in tasks)

    found = threshold(tasks)
    candidates = [math.inf, *(task.cosine for task in tasks)]
    assert reward(found) == max(map(reward, candidates))
    assert not any(reward(other) == reward(found) for other in candidates if other > found)


def found(place: int, cosine: float) -> Found:
    return Found(place, record(f"task {place}", "hint"), cosine)


def test_a_value_moves_three_tenths_of_the_way_to_each_reward() -> None:
    memories = ValuedMemories(2)
    memories.learn(1, 1.0)
    memories.learn(1, 1.0)
    assert memories.values.tolist() == pytest.approx([0, 0.51])


def test_a_memory_that_helped_beats_a_slightly_nearer_one() -> None:
    memories, candidates = ValuedMemories(3), [found(0, 0.91), found(1, 0.90), found(2, 0.60)]
    chosen = memories.choose(candidates)
    assert chosen is not None
    assert chosen.place == 0
    memories.learn(1, 1.0)
    chosen = memories.choose(candidates)
    assert chosen is not None
    assert chosen.place == 1


def test_below_the_gate_nothing_is_given() -> None:
    assert ValuedMemories(1).choose([found(0, 0.49)]) is None
    assert ValuedMemories(1).choose([]) is None


def test_values_follow_what_memories_are_worth() -> None:
    rng, memories, worth = random.Random(0), ValuedMemories(3), (0.1, 0.9, 0.5)
    for _ in range(300):
        place = rng.randrange(3)
        memories.learn(place, float(rng.random() < worth[place]))
    assert memories.values[1] > memories.values[0]
    chosen = memories.choose([found(place, 0.8) for place in range(3)])
    assert chosen is not None
    assert chosen.place == 1


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_a_reward_must_be_a_number(reward: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        ValuedMemories(1).learn(0, reward)

"""Dividing a bank by task, finding test tasks in it, and its numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.failures import ConfigError
from agentmem.memory.bank.records import BankRecord
from agentmem.memory.bank.splitting import forbidden_records, refuse_test_tasks, split
from agentmem.memory.bank.statistics import statistics
from agentmem.trajectory import Split
from tests.memory.banks import record

tasks = st.lists(st.integers(0, 12), min_size=2, max_size=40).filter(lambda made: len(set(made)) > 1)


def bank(numbers: list[int]) -> list[BankRecord]:
    return [record(f"r{i}", task_id=n if i % 2 else str(n)) for i, n in enumerate(numbers)]


@given(tasks, st.floats(0.01, 0.99), st.integers(0, 5))
def test_no_task_is_in_both_parts_and_no_record_is_lost(numbers: list[int], share: float, seed: int) -> None:
    records = bank(numbers)
    train, held_out = split(records, share, seed)
    assert not {r.task for r in train} & {r.task for r in held_out}
    assert sorted([*train, *held_out], key=lambda r: r.id) == sorted(records, key=lambda r: r.id)
    count, wanted = len({r.task for r in records}), len({r.task for r in held_out})
    assert wanted == min(max(round(share * count), 1), count - 1)
    assert split(records, share, seed) == (train, held_out)
    assert [r for r in records if r in train] == train


def test_another_seed_chooses_other_tasks() -> None:
    records = bank(list(range(40)))
    assert len({frozenset(r.id for r in split(records, 0.5, seed)[1]) for seed in range(5)}) == 5


def test_a_bank_that_cannot_be_split_is_said() -> None:
    with pytest.raises(ConfigError, match="a bank of 1 tasks can't be split"):
        split(bank([1, 1, 1]), 0.5)
    for share in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="must be between 0 and 1"):
            split(bank([1, 2]), share)


def test_training_refuses_a_bank_with_a_test_task_however_its_number_is_written() -> None:
    clean = [record("a", task_id=1), record("b", task_id="2")]
    refuse_test_tasks(clean, [("house", "3"), ("palace", "1")], "bank.jsonl")
    assert [r.id for r in forbidden_records(clean, [("house", "1"), ("house", "2")])] == ["a", "b"]
    with pytest.raises(ConfigError, match=r"bank\.jsonl holds 1 records of test tasks \(house 2\)"):
        refuse_test_tasks(clean, [("house", "2")], "bank.jsonl")
    with pytest.raises(ConfigError, match="training refuses"):
        refuse_test_tasks([record(split=Split.EVAL)], [], "bank.jsonl")


def test_the_numbers_of_a_bank() -> None:
    records = [
        record("a", task_id=1, m="Go right."),
        record("b", task_id=1, m="go  RIGHT."),
        record("c", task_id=2, m="one two three four", cut=True, failures=0, sources=("x:0",)),
    ]
    seen = statistics(records)
    assert (seen["records"], seen["tasks"], seen["cut"], seen["duplicates"]) == (3, 2, 1, 1)
    assert seen["kinds"] == {"pair": 2, "success": 1}
    assert seen["words"]["m"] == {"mean": 2.7, "median": 2, "p95": 4, "max": 4}
    assert (seen["prompt_tokens"], seen["completion_tokens"]) == (30, 15)

"""Recorded results hold what the run measured, and a wrong line is found, by the writer or by the reader."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from agentmem.app.reporting.learning_log import (
    append_line,
    default_path,
    episodes_of,
    learning_line,
    read_lines,
)
from agentmem.app.reporting.records import Condition, EvalRecord, Record, UpdateRecord
from agentmem.config import EngineConfig, EnvConfig, PolicyConfig, RunConfig
from agentmem.failures import AgentMemError

CONFIG = RunConfig(
    recipe="lamer-x",
    seed=3,
    env=EnvConfig(name="minesweeper"),
    policies={"agent": PolicyConfig(model="tiny")},
    engines={"agent": EngineConfig()},
)


def evaluation(update: int, p: list[float], condition: Condition = "with_memory") -> EvalRecord:
    return EvalRecord(update=update, condition=condition, n=512, p_at_k=p, low=p, high=p)


def training(n: int) -> UpdateRecord:
    return UpdateRecord(update=n, version=n, t=10.04 * n, trials=128, p_at_k=[0.5], sampled_tokens=900)


RECORDS: list[Record] = [
    evaluation(0, [0.1, 0.3]),
    evaluation(0, [0.1, 0.2], "without_memory"),
    training(1),
    evaluation(1, [0.2, 0.3]),
    training(2),
    evaluation(2, [0.5, 0.8]),
    evaluation(2, [0.5, 0.6], "without_memory"),
]


def good_line() -> dict[str, object]:
    line: dict[str, object] = msgspec.to_builtins(learning_line(CONFIG, RECORDS, commit="abc"))
    return line


def test_a_line_has_the_fields_and_the_figures_of_the_run(tmp_path: Path) -> None:
    line = learning_line(
        CONFIG, RECORDS, overrides=["seed=3"], arm="lamer", cpu_s=31.26, notes="n", commit="abc"
    )
    append_line(line, tmp_path / "deep" / "l.jsonl")
    assert json.loads((tmp_path / "deep" / "l.jsonl").read_text()) == {
        "recipe": "lamer-x",
        "overrides": ["seed=3"],
        "seed": 3,
        "commit": "abc",
        "arm": "lamer",
        "before": {
            "with_memory": {"p_at_k": [0.1, 0.3], "n": 512, "score": None},
            "without_memory": {"p_at_k": [0.1, 0.2], "n": 512, "score": None},
        },
        "after": {
            "with_memory": {"p_at_k": [0.5, 0.8], "n": 512, "score": None},
            "without_memory": {"p_at_k": [0.5, 0.6], "n": 512, "score": None},
        },
        "updates": 2,
        "trials": 256,
        "tokens": 1800,
        "wall_s": 20.1,
        "cpu_s": 31.3,
        "notes": "n",
        "episodes": 256,
    }


def test_episodes_are_counted_from_the_trials_that_were_not_solved_yet() -> None:
    update = UpdateRecord(update=1, version=1, t=1.0, trials=128, p_at_k=[0.25, 0.75, 1.0])
    assert episodes_of(update) == 128 + 96 + 32


def test_lines_are_appended_and_read_back(tmp_path: Path) -> None:
    line = learning_line(CONFIG, RECORDS)
    append_line(line, tmp_path / "l")
    append_line(line, tmp_path / "l")
    assert read_lines(tmp_path / "l") == [line, line]
    assert read_lines(tmp_path / "absent") == []


@pytest.mark.parametrize(
    ("records", "named"),
    [
        (RECORDS[:-1], "without_memory"),
        ([*RECORDS, training(3)], r"\(3\) for with_memory, without_memory"),
        ([evaluation(0, [0.1])], "with_memory"),
        ([training(1)], "any condition"),
    ],
)
def test_a_run_that_was_not_evaluated_at_its_end_is_not_recorded(records: list[Record], named: str) -> None:
    with pytest.raises(AgentMemError, match=named):
        learning_line(CONFIG, records)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"extra": 1}, "extra"),
        ({"after": {}}, "after is empty"),
        ({"after": {"with_memory": {"p_at_k": [0.5, 1.2], "n": 512, "score": None}}}, "p_at_k"),
        ({"after": {"with_memory": {"p_at_k": [0.5, 0.4], "n": 512, "score": None}}}, "must not fall"),
        ({"after": {"with_memory": {"p_at_k": [], "n": 512, "score": None}}}, "p_at_k"),
        ({"after": {"with_memory": {"p_at_k": [0.5], "n": 0, "score": None}}}, "n is 0"),
        ({"after": {"with_memory": {"p_at_k": [0.5], "n": 512}}}, "score"),
        ({"trials": -1}, "trials is -1"),
        ({"episodes": 255}, "episodes is 255"),
        ({"seed": "three"}, "seed"),
    ],
)
def test_a_wrong_line_is_named_with_its_number(tmp_path: Path, change: dict[str, object], named: str) -> None:
    path = tmp_path / "l"
    lines = [good_line(), good_line() | change]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(AgentMemError, match=f"line 2: .*{named}"):
        read_lines(path)


def test_a_line_without_a_field_is_refused(tmp_path: Path) -> None:
    line = good_line()
    del line["commit"]
    (tmp_path / "l").write_text(json.dumps(line))
    with pytest.raises(AgentMemError, match="line 1: .*commit"):
        read_lines(tmp_path / "l")


def test_the_committed_results_are_valid() -> None:
    lines = read_lines()
    recorded = default_path().read_bytes().count(b"\n") if default_path().is_file() else 0
    assert len(lines) == recorded

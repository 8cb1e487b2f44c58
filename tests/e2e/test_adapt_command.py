"""`agentmem eval --adapt N`: weights frozen, memory grows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentmem.app.evaluation.adapt import AttemptLine, adapt_table, pooled
from tests.e2e.test_eval_command import evaluate

SMALL = (
    "--set",
    "memory.embedder=words",
    "--set",
    "memory.tips.max_tokens=1",
    "--set",
    "memory.tips.min_cosine=0.0",
)


#: One after the other: the first attempt's later trials would find earlier ones' tips in a shared book.
SHARED = ("--set", "memory.tips.scope=environment", "--set", "agents.trials_in_flight=1")


@pytest.mark.parametrize("books", [(), SHARED], ids=["a book each", "one book"])
def test_each_attempt_reads_what_the_earlier_ones_taught(tmp_path: Path, books: tuple[str, ...]) -> None:
    done = evaluate(tmp_path, "lamer-minesweeper-reflect", "--adapt", "3", *SMALL, *books)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "evals").iterdir()
    lines = [json.loads(line) for line in (folder / "adapt.jsonl").read_text().splitlines()]
    assert [(line["attempt"], line["n"]) for line in lines] == [(1, 16), (2, 16), (3, 16)]
    tips = [line["tips"] for line in lines]
    assert tips[0] == 0 < tips[1] < tips[2]
    assert lines[0]["with_tips"] == 0 < lines[1]["with_tips"]
    trials = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    conditions = [trial["condition"] for trial in trials]
    assert {name: conditions.count(name) for name in conditions} == {f"attempt_{k}": 16 for k in (1, 2, 3)}
    instances = [
        [trial["instance"] for trial in trials if trial["condition"] == f"attempt_{k}"] for k in (1, 2, 3)
    ]
    assert instances[0] == instances[1] == instances[2]
    assert (folder / "adapt.png").stat().st_size > 10_000
    _, _, table = done.stdout.partition("attempt  n")
    rows = [line.split() for line in table.splitlines() if line[:1].isdigit()]
    assert [row[:2] for row in rows] == [["1", "16"], ["2", "16"], ["3", "16"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--adapt", "1"), "--adapt is 1: at least 2"),
        (("--adapt", "3", "--seeds", "0"), "--seeds is 0: at least 1"),
        (("--adapt", "3", "--trials-per-task", "2"), "--trials-per-task is 2: with --adapt it is 1"),
        (("--adapt", "3", "--prompting", "react"), "--prompting: can't go together with --adapt"),
    ],
)
def test_what_cannot_be_adapted_is_one_line(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = evaluate(tmp_path, "lamer-minesweeper", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def attempt(number: int, seed: int, solved: int, score: float | None = None) -> AttemptLine:
    return AttemptLine(
        attempt=number, seed=seed, n=10, solved=solved, score=score, tips=number, with_tips=0, wall_s=1.0
    )


def test_seeds_are_pooled_and_the_change_is_since_the_first_attempt() -> None:
    lines = [attempt(k, seed, solved) for seed in (0, 1) for k, solved in ((1, 2), (2, 3 + seed))]
    assert [(line.attempt, line.n, line.solved) for line in pooled(lines)] == [(1, 20, 4), (2, 20, 7)]
    assert "+75%" in adapt_table(lines)
    scored = [attempt(1, 0, 0, score=20.0), attempt(2, 0, 0, score=50.0)]
    assert "+150%" in adapt_table(scored)
    assert "score" in adapt_table(scored)
    nothing = [attempt(1, 0, 0), attempt(2, 0, 5)]
    assert "%" not in adapt_table(nothing).splitlines()[-2]

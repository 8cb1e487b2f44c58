"""`agentmem eval`: frozen weights on held-out instances, from a run or a recipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentmem.app.evaluation.table import pooled
from agentmem.app.reporting.examples import load_examples
from agentmem.app.reporting.records import EvalRecord, GapRecord, MaskRecord, read_records
from agentmem.evaluation.behaviour import trajectory_entropy
from agentmem.evaluation.held_out import check_held_out
from agentmem.evaluation.lines import by_task, read_lines
from agentmem.failures import ConfigError
from tests.e2e.runs import TINY, TORCH, plain


def evaluate(runs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = [part for setting in (*TINY, *TORCH) for part in ("--set", setting)]
    return subprocess.run(
        [sys.executable, "-m", "agentmem", "eval", *arguments, *settings],
        env={**os.environ, "AGENTMEM_RUNS": str(runs)},
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_a_recipes_model_is_evaluated_on_each_seeds_own_instances(tmp_path: Path) -> None:
    done = evaluate(tmp_path, "lamer-minesweeper", "--seeds", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    success, _, _ = done.stdout.partition("same failure again")
    rows = [line.split()[:3] for line in success.splitlines() if line.startswith("with")]
    assert rows == [
        [memory, seed, n]
        for memory in ("with", "without")
        for seed, n in (("0", "16"), ("1", "16"), ("all", "32"))
    ]
    (folder,) = (tmp_path / "evals").iterdir()
    assert str(folder) in plain(done.stdout)
    lines = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    assert len(lines) == 64
    played = {
        (line["condition"], line["seed"]): [
            other["instance"]
            for other in lines
            if (other["condition"], other["seed"]) == (line["condition"], line["seed"])
        ]
        for line in lines
    }
    assert played["with_memory", 0] == played["without_memory", 0]
    assert played["with_memory", 0] != played["with_memory", 1]
    for line in read_lines(folder / "trials.jsonl"):
        assert line.tokens["act"] == line.turns
        assert 1 <= len(line.solved) <= 3
        assert not any(line.solved[:-1])
    (gap,) = (r for r in read_records(folder / "metrics.jsonl") if isinstance(r, GapRecord))
    assert (gap.n, len(gap.gap)) == (len({line["instance"] for line in lines}), 3)
    assert [row[:2] for row in map(str.split, done.stdout.splitlines()) if row[:1] == ["gap"]] == [
        ["gap", "all"]
    ]
    assert "same failure again" in done.stdout
    assert "entropy  " not in done.stdout


def test_several_trials_of_a_task_tell_its_entropy_and_worst_task(tmp_path: Path) -> None:
    conditions = "evaluation.conditions=[with_memory]"
    report = tmp_path / "report.html"
    further = ("--trials-per-task", "4", "--html", str(report), "--set", conditions)
    done = evaluate(tmp_path, "lamer-minesweeper", *further)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "evals").iterdir()
    lines = read_lines(folder / "trials.jsonl")
    tasks = by_task(lines)
    assert len(tasks) == 16
    assert all([line.sample for line in trials] == [0, 1, 2, 3] for trials in tasks.values())
    entropy = trajectory_entropy(lines)
    assert entropy is not None
    assert f"{entropy.value:.2f} (16 x 4)" in done.stdout
    assert "worst p@3" in done.stdout
    assert str(report) in plain(done.stdout)
    for part in ("Success on held-out tasks", "Example trials", f"{entropy.value:.2f}"):
        assert part in report.read_text()


def test_masked_second_episodes_are_played_behind_the_same_first_one(
    tmp_path: Path,
) -> None:
    conditions = "evaluation.conditions=[with_memory]"
    done = evaluate(tmp_path, "lamer-minesweeper", "--mask", "all", "--mask", "line:1", "--set", conditions)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "evals").iterdir()
    whole = {line.instance: line for line in read_lines(folder / "trials.jsonl")}
    masked = read_lines(folder / "masked.jsonl")
    again = [line for line in masked if line.condition == "mask_all"]
    lost = [line.instance for line in whole.values() if len(line.episodes) > 1]
    assert sorted(line.instance for line in again) == sorted(lost)
    for line in masked:
        assert line.episodes[0] == whole[line.instance].episodes[0]
        assert len(line.episodes) > 1
    records = [r for r in read_records(folder / "metrics.jsonl") if isinstance(r, MaskRecord)]
    assert [r.mask for r in records] == ["all", "line:1"]
    assert records[0].trials == len(lost)
    assert records[0].masked == sum(line.episodes[1].solved for line in again) / len(lost)


@pytest.mark.slow
def test_a_language_model_retries_with_reflections_asked_for_thoughts_and_actions(tmp_path: Path) -> None:
    """One board, two short attempts: what is asked and what is written, not whether it is solved."""
    short = ("evaluation.tasks=1", "evaluation.episodes=2", "env.max_turns=1")
    lengths = ("evaluation.sampling.max_tokens=24", "evaluation.sampling.reflect_max_tokens=16")
    settings = [
        part
        for setting in ("policies.agent.model=smollm2", *short, *lengths, "engines.agent.backend=torch")
        for part in ("--set", setting)
    ]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "agentmem",
            "eval",
            "lamer-minesweeper",
            "--prompting",
            "reflexion",
            *settings,
        ],
        env={**os.environ, "AGENTMEM_RUNS": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=560,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "evals").glob("lamer-minesweeper-reflexion-*")
    (line,) = read_lines(folder / "trials.jsonl")
    assert line.condition == "with_memory"
    if len(line.episodes) == 2:
        assert 0 < line.tokens["reflect"] <= 16
    (example,) = load_examples(folder / "examples.msgpack")
    assert example.prompts is not None
    assert "begins with `Thought:`" in example.prompts[0]
    assert "Think first" not in example.prompts[0]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("lamer-minesweeper", "--mask", "brain"), ["--mask is 'brain'", "known are reflection"]),
        (("chess",), ["run 'chess' not found", "agentmem recipes"]),
        (("lamer-minesweeper", "--seeds", "0"), ["--seeds is 0", "at least 1"]),
        (("lamer-minesweeper", "--prompting", "poetry"), ["--prompting is 'poetry'", "zero-shot, react"]),
        (("lamer-minesweeper", "--prompting", "react"), ["'react'", "chat messages", "smollm2"]),
        (("lamer-minesweeper", "--trials-per-task", "0"), ["--trials-per-task is 0", "at least 1"]),
        (("lamer-minesweeper", "--set", "evaluation.seeds=2"), ["evaluation.seeds"]),
    ],
)
def test_what_can_not_be_evaluated_is_one_clear_line(
    arguments: tuple[str, ...], parts: list[str], tmp_path: Path
) -> None:
    done = evaluate(tmp_path, *arguments)
    assert done.returncode == ConfigError.exit_code
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    for part in parts:
        assert part in line


def test_an_instance_that_is_trained_on_is_refused() -> None:
    check_held_out(range(10), [10, 11])
    check_held_out(["a", "b"], ["c"])
    with pytest.raises(ConfigError, match="instance 7 is in the training split"):
        check_held_out(range(10), [12, 7])
    with pytest.raises(ConfigError, match="instance 'b' is in the training split"):
        check_held_out(["a", "b"], ["b"])


def test_seeds_are_pooled_by_their_trials() -> None:
    def record(n: int, solved: int, score: float | None) -> EvalRecord:
        share = solved / n
        return EvalRecord(
            update=0, condition="with_memory", n=n, p_at_k=[share], low=[0.0], high=[1.0], score=score
        )

    both = pooled([record(10, 1, 0.5), record(30, 11, 0.1)])
    assert (both.n, both.p_at_k) == (40, [0.3])
    assert both.score == pytest.approx((5 + 3) / 40)
    assert both.low[0] < 0.3 < both.high[0]

"""`agentmem bank play`: whole trials of training instances, from which a bank is built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from agentmem.app.bank.playing import KeptTrial
from agentmem.app.bank.sources import collect
from agentmem.app.bank_cli import app
from agentmem.config import load_config
from agentmem.failures import ConfigError
from envs.registry import instances
from tests.e2e.runs import TINY, TORCH


def test_training_instances_are_played_and_kept_whole(tmp_path: Path) -> None:
    out = tmp_path / "trials.jsonl"
    settings = [
        part for setting in (*TINY, *TORCH, "agents.trials_in_flight=4") for part in ("--set", setting)
    ]
    words = ["lamer-minesweeper", "--out", str(out), "--tasks", "5", "--trials", "2", *settings]
    done = subprocess.run(
        [sys.executable, "-m", "agentmem", "bank", "play", *words],
        env={**os.environ, "AGENTMEM_RUNS": str(tmp_path / "runs")},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 trials" in done.stdout
    options = load_config("lamer-minesweeper").env.options
    said: list[str] = []
    traces = collect([str(out)], options, said.append)
    assert len({trace.task_id for trace in traces}) == 5
    assert {trace.task_id for trace in traces} <= set(instances("minesweeper", options, "train"))
    assert len({trace.source.rpartition(":")[0] for trace in traces}) == 10
    assert all(trace.first and trace.steps and trace.task_text for trace in traces)
    assert "left out" not in said[0]
    assert len(out.read_bytes()) < 10 * 8_000


def test_with_mempi_the_agent_plays_alone_and_nothing_of_the_memory_policy_is_needed(tmp_path: Path) -> None:
    out, runs = tmp_path / "trials.jsonl", tmp_path / "runs"
    words = ["mempi-doors", "--out", str(out), "--tasks", "6", "--trials", "2"]
    # Its Stage 1 is what the bank is for: it isn't there yet.
    settings = ["--set", "policies.memory.model=./runs/no-such-stage1/final_model"]
    done = subprocess.run(
        [sys.executable, "-m", "agentmem", "bank", "play", *words, *settings],
        env={**os.environ, "AGENTMEM_RUNS": str(runs)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    trials = [msgspec.json.decode(line, type=KeptTrial).trial for line in out.read_bytes().splitlines()]
    assert len(trials) == 12
    assert not any(trial.advice for trial in trials)
    assert {turn.policy for trial in trials for turn in trial.turns()} == {"agent"}
    (log,) = runs.glob("evals/*/logs/driver.log")
    assert "generator" not in log.read_text()
    assert "starting engines" not in log.read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--tasks", "0"], "--tasks is 0: at least 1"),
        (["--trials", "0"], "--trials is 0: at least 1"),
        (["--set", "env.options.size=x"], "env"),
    ],
)
def test_what_cannot_be_played_is_one_line(tmp_path: Path, words: list[str], told: str) -> None:
    result = CliRunner().invoke(
        app, ["play", "lamer-minesweeper", "--out", str(tmp_path / "t.jsonl"), *words]
    )
    assert isinstance(result.exception, ConfigError)
    assert told in str(result.exception)
    assert not (tmp_path / "t.jsonl").exists()


def test_trials_that_are_there_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").touch()
    result = CliRunner().invoke(app, ["play", "lamer-minesweeper", "--out", str(tmp_path / "t.jsonl")])
    assert "is there already" in str(result.exception)

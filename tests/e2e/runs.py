"""Runs of the whole product as a user starts it: `agentmem run` in a process of its own, small settings."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

START_S = 240.0
"""Until a run trains, on a machine that is busy with other things."""

TINY = (
    "policies.agent.warmup.steps=30",
    "policies.agent.warmup.batch_rows=64",
    "rollout.tasks_per_update=4",
    "rollout.group_size=4",
    "evaluation.tasks=16",
    "agents.trials_in_flight=32",
    "learner.checkpoint_every=2",
    "engines.agent.max_num_seqs=16",
)
"""A run of seconds. It isn't meant to learn."""

TORCH = ("engines.agent.backend=torch",)
"""The small engine, where the engine isn't what is tested."""


@dataclass
class Run:
    """A started `agentmem run`."""

    process: subprocess.Popen[str]
    runs: Path
    log: Path

    @property
    def path(self) -> Path:
        """Its run directory."""
        return max(self.runs.iterdir(), key=lambda p: p.name)

    def output(self) -> str:
        return self.log.read_text()

    def records(self, kind: str) -> list[dict[str, Any]]:
        """What `metrics.jsonl` holds of a kind."""
        if not any(self.runs.iterdir()):
            return []
        metrics = self.path / "metrics.jsonl"
        lines = metrics.read_text().splitlines() if metrics.is_file() else []
        return [r for r in map(json.loads, lines) if r["record"] == kind]

    def until(self, condition: Callable[[], bool], seconds: float = START_S) -> None:
        """Wait for a condition, at most so long, and only while the run lives."""
        end = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, f"the run ended:\n{self.output()}"
            assert time.monotonic() < end, f"not within {seconds} s:\n{self.output()}"
            time.sleep(0.05)

    def until_update(self, number: int) -> None:
        """Wait for an update to be finished."""
        self.until(lambda: any(r["update"] >= number for r in self.records("update")))

    def end(self, seconds: float = START_S) -> int:
        """Wait for its end; the exit status."""
        return self.process.wait(seconds)

    def actors(self, title: str) -> list[psutil.Process]:
        """Its actor processes of a class (Ray names them `ray::CLASS`)."""
        mine = psutil.Process(self.process.pid).children(recursive=True)
        return [p for p in mine if f"ray::{title}" in " ".join(_command(p))]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def plain(text: str) -> str:
    """Output with line breaks and columns made single blanks."""
    return re.sub(r"\s+", " ", text)

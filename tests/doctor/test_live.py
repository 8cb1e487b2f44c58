"""The whole examination as a user starts it: a cluster, its nodes, one fake trial, an exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentmem.app.doctor.doctor import NAMES
from tests.e2e.runs import TINY, TORCH

SETTINGS = [part for setting in (*TINY, *TORCH) for part in ("--set", setting)]


def command(*arguments: str, runs: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentmem", *arguments, *SETTINGS],
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "AGENTMEM_RUNS": str(runs), **variables},
        check=False,
    )


def test_a_dry_run_tells_configuration_and_placement_and_plays_one_fake_trial(tmp_path: Path) -> None:
    done = command("run", "lamer-minesweeper", "--dry-run", "--set", "env.placement=worker", runs=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    out = done.stdout
    assert "recipe: lamer-minesweeper\n" in out
    assert "\nplacement:\n  engines.agent             1 × 1 CPU\n" in out
    assert "  env.workers               1 × 1 CPU\n" in out
    assert [row for row in out.splitlines() if row.startswith("✘")] == []
    assert "✔ fake trial        FAKE trial of minesweeper " in out
    assert "bytes through the server and decoded" in out
    assert "checks passed, 0 failed" in out.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_that_is_not_there_is_named_and_nothing_is_played(tmp_path: Path) -> None:
    address = "127.0.0.1:1"
    done = command("doctor", "lamer-minesweeper", "--address", address, "--json", runs=tmp_path)
    assert done.returncode == 4, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["status"] == 4
    found = {finding["check"]: finding for finding in told["findings"]}
    assert list(found) == list(NAMES)
    assert found["cluster"]["verdict"] == "bad"
    assert found["cluster"]["found"].startswith(f"Ray ({address}): ")
    assert found["placement"]["verdict"] == "unseen"
    assert found["fake trial"]["found"] == "not played, since a check failed: cluster"


def test_a_fault_that_only_play_shows_is_found_by_the_fake_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from envs.minesweeper.env import MineSweeper\n"
        "def step(self, action):\n"
        "    raise KeyError('no such cell: the bug')\n"
        "MineSweeper.step = step\n"
    )
    done = command(
        "doctor", "lamer-minesweeper", runs=tmp_path / "runs", PYTHONPATH=f"{tmp_path}:{os.getcwd()}"
    )
    assert done.returncode == 1, done.stdout + done.stderr
    (bad,) = [row for row in done.stdout.splitlines() if row.startswith("✘")]
    assert bad.startswith("✘ fake trial        the fake trial failed: ")
    assert "no such cell: the bug" in bad


def test_static_looks_without_starting_anything(tmp_path: Path) -> None:
    done = command("doctor", "lamer-minesweeper", "--static", "--set", "engines.agent.gpus=1", runs=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "– cluster           not asked (--static)" in done.stdout
    assert "– placement         asked for: engines.agent 1 × 1 CPU, 1 GPU; " in done.stdout
    assert "– fake trial        not played (--static)" in done.stdout


def test_static_without_a_dry_run_is_refused(tmp_path: Path) -> None:
    done = command("run", "lamer-minesweeper", "--static", runs=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: --static: belongs to --dry-run, which isn't given\n"

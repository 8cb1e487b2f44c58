"""A run's numbers of parts change while it goes on, by a command in another process; nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.e2e.runs import TINY, TORCH, Run, plain

LONG = (
    *TINY,
    *TORCH,
    "env.placement=worker",
    "env.slots_per_worker=8",
    "evaluation.tasks=0",
    "learner.updates=100000",
)


def agentmem(run: Run, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentmem", *arguments],
        env={**os.environ, "AGENTMEM_RUNS": str(run.runs)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def status(run: Run) -> dict[str, Any]:
    done = agentmem(run, "status", "last", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def sizes(seen: dict[str, Any]) -> dict[str, int]:
    return {kind: each["running"] for kind, each in seen["status"]["kinds"].items()}


def test_parts_of_every_kind_come_and_go_while_a_run_trains_and_a_wish_outlives_its_driver(
    start: Callable[..., Run],
) -> None:
    run = start("lamer-minesweeper", *LONG)
    run.until_update(2)
    done = agentmem(run, "scale", "last", "env-workers=3", "agents=2", "engines.agent=2")
    assert done.returncode == 0, done.stdout + done.stderr + run.output()
    assert "agents: 1 running, 1 desired before; wished for: 2" in done.stdout
    assert done.stdout.rstrip().endswith("reached")
    seen = status(run)
    assert sizes(seen) == {"engines.agent": 2, "agents": 2, "env-workers": 3}
    assert len(run.actors("EnvWorker")) == 3
    assert len(run.actors("EngineActor")) == 2
    update = run.records("update")[-1]["update"]
    run.until_update(update + 3)  # trained on, with the newcomers, whose weights are pushed as well

    done = agentmem(run, "scale", "last", "env-workers=1", "engines.agent=1")
    assert done.returncode == 0, done.stdout + done.stderr + run.output()
    seen = status(run)
    assert sizes(seen) == {"engines.agent": 1, "agents": 2, "env-workers": 1}
    update = run.records("update")[-1]["update"]
    run.until_update(update + 3)
    seen = status(run)
    assert seen["identity_holds"]
    assert seen["tickets"]["failed"] == seen["tickets"]["dead_letters"] == 0
    assert not any(seen["status"]["restarts"].values())
    text = agentmem(run, "status", "last").stdout
    for part in ("trials/s", "the identity holds", "agents         2 of 2, wished for 2", "staleness"):
        assert part in text

    for wrong, said in (
        (("agents=none",), "agents=none: a number from 1 to 100000, or 'auto', is needed"),
        (("agents=0",), "agents=0: a number from 1"),
        (("cooks=2",), "cooks: this run has no such parts; it has agents, engines.agent, env-workers"),
        (("agents",), "agents: write it as kind=number"),
    ):
        done = agentmem(run, "scale", "last", *wrong)
        assert done.returncode == 2
        assert said in plain(done.stderr)
        assert "Traceback" not in done.stderr

    run.process.send_signal(signal.SIGINT)
    assert run.end() == 130
    told = agentmem(run, "status", "last")
    assert told.returncode == 0
    assert f"run {run.path.name} doesn't go on: interrupted" in told.stdout
    assert len(told.stdout.splitlines()) == 1
    done = agentmem(run, "scale", "last", "agents=1")
    assert done.returncode == 2
    assert "doesn't go on: interrupted" in done.stderr

    update = run.records("update")[-1]["update"]
    again = start("lamer-minesweeper", resume="last")
    again.until_update(update + 1)
    assert sizes(status(again)) == {"engines.agent": 1, "agents": 2, "env-workers": 1}


def test_a_run_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    for command in (("status", "nothing"), ("scale", "nothing", "agents=2")):
        done = subprocess.run(
            [sys.executable, "-m", "agentmem", *command],
            env={**os.environ, "AGENTMEM_RUNS": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 2
        assert plain(done.stderr).startswith("error: run 'nothing' not found")
        assert len(done.stderr.splitlines()) == 1

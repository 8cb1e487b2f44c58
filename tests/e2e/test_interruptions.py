"""Ctrl-C, resume, and parts killed in the middle: the run goes on, no trial is lost or doubled."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import psutil
import pytest

from tests.e2e.runs import TINY, TORCH, Run, plain


def test_ctrl_c_ends_cleanly_and_resume_goes_on(start: Callable[..., Run]) -> None:
    settings = (*TINY, *TORCH, "learner.updates=400", "evaluation.tasks=0")
    run = start("lamer-minesweeper", *settings)
    run.until_update(5)
    family = psutil.Process(run.process.pid).children(recursive=True)
    asked = time.monotonic()
    run.process.send_signal(signal.SIGINT)
    assert run.end(60) == 130, run.output()
    assert time.monotonic() - asked < 15, run.output()
    assert f"--resume {run.path.name}" in plain(run.output())
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive

    reached = run.records("update")[-1]["update"]
    again = start(
        "lamer-minesweeper", *TINY, *TORCH, f"learner.updates={reached + 3}", "evaluation.tasks=0",
        resume="last",
    )  # fmt: skip
    assert again.end() == 0, again.output()
    assert "configuration differs" in again.output()
    assert [r["update"] for r in again.records("update")] == list(range(1, reached + 4))
    assert [r["what"] for r in again.records("event")] == ["resume"]


@pytest.mark.parametrize(
    ("victim", "overrides"),
    [
        ("AgentActor", ()),
        ("EnvWorker", ("env.placement=worker",)),
        ("EngineActor", ()),
    ],
)
def test_a_killed_part_is_replaced_and_every_group_is_trained_once(
    victim: str, overrides: tuple[str, ...], start: Callable[..., Run]
) -> None:
    run = start(
        "lamer-minesweeper", *TINY, *TORCH, *overrides, "learner.updates=60", "evaluation.tasks=0",
        "replay.lease_s=10",
    )  # fmt: skip
    run.until_update(3)
    (process,) = run.actors(victim)
    os.kill(process.pid, signal.SIGKILL)
    assert run.end() == 0, run.output()
    updates = run.records("update")
    assert [r["update"] for r in updates] == list(range(1, 61))
    assert all(r["trials"] == 16 for r in updates)
    assert [r["what"] for r in run.records("event")] == ["restart"]


def test_a_spent_restart_budget_ends_the_run_with_its_cause(start: Callable[..., Run]) -> None:
    run = start(
        "lamer-minesweeper", *TINY, *TORCH, "learner.updates=4000", "evaluation.tasks=0",
        "supervision.restart_budget=0",
    )  # fmt: skip
    run.until_update(2)
    (process,) = run.actors("AgentActor")
    os.kill(process.pid, signal.SIGKILL)
    assert run.end(120) == 8, run.output()
    last = run.output().strip().splitlines()[-1]
    assert last.startswith("error: agent: 0 restarts are spent (supervision.restart_budget is 0)")

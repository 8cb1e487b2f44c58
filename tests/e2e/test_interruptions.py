"""Ctrl-C, resume, and parts killed in the middle: the run goes on, no trial is lost or doubled."""

from __future__ import annotations

import itertools
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.e2e.runs import TINY, TORCH, Run, plain


def test_ctrl_c_saves_and_ends_cleanly_and_resume_goes_on(start: Callable[..., Run]) -> None:
    settings = (*TINY, *TORCH, "learner.updates=400", "evaluation.tasks=0", "learner.checkpoint_every=1000")
    run = start("lamer-minesweeper", *settings)
    run.until_update(5)
    family = psutil.Process(run.process.pid).children(recursive=True)
    run.process.send_signal(signal.SIGINT)
    assert run.end(60) == 130, run.output()
    assert f"--resume {run.path.name}" in plain(run.output())
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive

    reached = run.records("update")[-1]["update"]
    again = start("lamer-minesweeper", f"learner.updates={reached + 3}", resume="last")
    assert again.end() == 0, again.output()
    assert "configuration differs from the run's: learner.updates: 400" in plain(again.output())
    assert [r["update"] for r in again.records("update")] == list(range(1, reached + 4))
    (event,) = again.records("event")
    assert event["what"] == "resume"
    assert event["detail"].startswith(f"update {reached}, ")


def name(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


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


def test_a_killed_learner_goes_back_to_its_checkpoint_and_no_update_counts_twice(
    start: Callable[..., Run],
) -> None:
    run = start(
        "lamer-minesweeper", *TINY, *TORCH, "learner.updates=40", "evaluation.tasks=0",
        "learner.checkpoint_every=10",
    )  # fmt: skip
    run.until_update(13)
    (process,) = run.actors("RankActor")
    os.kill(process.pid, signal.SIGKILL)
    assert run.end() == 0, run.output()
    updates = run.records("update")
    assert [r["update"] for r in updates] == list(range(1, 41))
    groups = [g for r in updates for g in r["groups"]]
    assert sorted(groups) == [f"g{n:07d}" for n in range(160)]
    versions = [r["version"] for r in updates]
    # A number names one set of weights: those that were given up are skipped.
    assert all(later > earlier for earlier, later in itertools.pairwise(versions))
    assert versions[-1] > 40
    assert [r["what"] for r in run.records("event")] == ["restart", "learner restart"]


def test_a_killed_actor_of_the_replay_server_is_replaced_at_the_same_address(
    start: Callable[..., Run],
) -> None:
    run = start("lamer-minesweeper", *TINY, *TORCH, "learner.updates=60", "evaluation.tasks=0")
    run.until_update(3)
    (process,) = run.actors("ReplayServer")
    (server,) = process.children()
    os.kill(process.pid, signal.SIGKILL)
    assert run.end() == 0, run.output()
    updates = run.records("update")
    assert sorted(g for r in updates for g in r["groups"]) == [f"g{n:07d}" for n in range(240)]
    assert [r["detail"] for r in run.records("event")] == ["replay_server: 1 so far"]
    assert not server.is_running()


def test_a_run_that_died_before_its_first_checkpoint_goes_on_from_the_initial_model(
    start: Callable[..., Run],
) -> None:
    settings = (*TINY, *TORCH, "evaluation.tasks=0", "learner.checkpoint_every=1000")
    run = start("lamer-minesweeper", *settings, "learner.updates=4000")
    run.until_update(3)
    family = psutil.Process(run.process.pid).children(recursive=True)
    run.process.send_signal(signal.SIGKILL)
    run.end(10)
    own = [p for p in family if "ray::DashboardAgent" not in name(p) and "RuntimeEnvAgent" not in name(p)]
    _, alive = psutil.wait_procs(own, timeout=20)
    assert not alive
    again = start("lamer-minesweeper", *settings, "learner.updates=5", resume="last")
    assert again.end() == 0, again.output()
    updates = again.records("update")
    assert [r["update"] for r in updates] == [1, 2, 3, 4, 5]
    assert len({g for r in updates for g in r["groups"]}) == 20


def test_without_staleness_every_token_is_of_the_present_weights_and_old_groups_can_be_drawn_besides(
    start: Callable[..., Run],
) -> None:
    run = start(
        "lamer-minesweeper", *TINY, *TORCH, "learner.updates=12", "evaluation.tasks=0",
        "replay.max_staleness=0", "replay.fraction=0.5",
    )  # fmt: skip
    assert run.end() == 0, run.output()
    updates = run.records("update")
    assert all(r["staleness_max"] == 0 for r in updates)
    assert all(len(r["groups"]) == 2 and r["trials"] == 8 for r in updates)
    # Groups come into the replay table when a checkpoint settles them, every second update.
    assert [r["replayed_groups"] for r in updates[:2]] == [0, 0]
    assert all(r["replayed_groups"] == 2 for r in updates[2:6])
    # Ratios of old groups are against what the engine reported, so they aren't 1.
    assert any(abs(r["ratio_mean"] - 1) > 1e-3 for r in updates[2:])


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


def test_a_bug_of_an_environment_ends_the_run_with_its_cause_in_the_last_line(
    start: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from envs.minesweeper.env import MineSweeper\n"
        "def step(self, action):\n"
        "    raise KeyError('no such cell: the bug')\n"
        "MineSweeper.step = step\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = start("lamer-minesweeper", *TINY, *TORCH, "evaluation.tasks=0")
    assert run.end() == 1, run.output()
    last = run.output().strip().splitlines()[-1]
    assert "trials failed for good" in last
    assert "no such cell: the bug" in last


def test_a_run_that_stands_still_ends_and_names_what_it_waits_for(start: Callable[..., Run]) -> None:
    run = start(
        "lamer-minesweeper", *TINY, *TORCH, "learner.updates=400", "evaluation.tasks=0",
        "supervision.stall_timeout_s=6", "supervision.ping_timeout_s=600", "supervision.drain_timeout_s=2",
        "replay.reconnect_s=900",
    )  # fmt: skip
    run.until_update(2)
    family = psutil.Process(run.process.pid).children(recursive=True)
    (agent,) = run.actors("AgentActor")
    agent.send_signal(signal.SIGSTOP)  # with this ping timeout nobody takes it for dead
    assert run.end(120) == 7, run.output()
    last = plain(run.output()).rpartition("error: ")[2]
    assert "no progress for 6 s" in last
    assert re.search(
        r"update \d+ waits for 4 complete groups; .* running, .*alive: 1 agents, 1 engines", last
    )
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive

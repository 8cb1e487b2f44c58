"""`agentmem run` of Mem-π's Stage 1: a bank is learnt, measured, guarded and gone on with."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from agentmem.app.reporting.records import DistilRecord, distils_of, read_records
from agentmem.chat import DecisionTokens
from agentmem.memory.bank.records import BankRecord, Tokens
from agentmem.trajectory import Split
from envs.doors.house import instances, rule_of
from envs.doors.options import Options
from tests.e2e.runs import plain
from tests.e2e.test_live_metrics import scrape

DOORS = Options(kinds=8, rooms=3, doors=4, rule=2, format="compact")
SMALL = (
    "policies.memory.warmup.steps=20",
    "policies.memory.warmup.batch_rows=32",
    "advice.stage1.epochs=3",
    "advice.stage1.lr=0.003",
)


def bank(path: Path, *, split: Split = Split.TRAIN, houses: int = 64) -> Path:
    """For each of some houses of a split, the right door of its first room."""
    rule = rule_of(DOORS.rule, DOORS.kind_words, DOORS.door_words)
    with path.open("wb") as file:
        for house in instances(DOORS, split.value)[:houses]:
            room = str(house).partition("-")[0]
            record = BankRecord(
                id=str(house), domain="doors", task_id=house, seed=None, split=split, q="Find the way.",
                o=room, m=f"{room} {rule[room]}", sources=("t:0",), successes=1, failures=0, writer="w",
                prompt_version="1", tokens=Tokens(prompt=None, completion=None),
            )  # fmt: skip
            file.write(msgspec.json.encode(record) + b"\n")
    return path


def command(*arguments: str) -> list[str]:
    settings = [part for setting in SMALL for part in ("--set", setting)]
    return [sys.executable, "-m", "agentmem", "run", "mempi-doors-stage1", *settings, *arguments]


def run(runs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "AGENTMEM_RUNS": str(runs)}
    return subprocess.run(command(*arguments), env=env, capture_output=True, text=True, timeout=240)


def with_bank(path: Path) -> tuple[str, str]:
    return "--set", f"advice.stage1.bank={path}"


def steps_of(folder: Path) -> list[DistilRecord]:
    return distils_of(read_records(folder / "metrics.jsonl"))


def test_a_bank_is_learnt_and_what_is_held_out_is_measured(tmp_path: Path) -> None:
    done = run(tmp_path / "runs", *with_bank(bank(tmp_path / "bank.jsonl")))
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    before, *steps = steps_of(folder)
    assert before.held_out is not None
    assert [step.update for step in steps] == list(range(1, 13))
    measured = [step.held_out for step in steps if step.held_out is not None]
    assert len(measured) == 3
    assert measured[-1] < before.held_out
    assert "held-out loss" in done.stdout
    assert DecisionTokens.of(folder / "final_model")


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    longer = ("--set", "learner.checkpoint_every=1", "--set", "advice.stage1.epochs=10")
    given = (*with_bank(bank(tmp_path / "bank.jsonl")), *longer)
    runs, log = tmp_path / "runs", tmp_path / "log"
    env = {**os.environ, "AGENTMEM_RUNS": str(runs)}
    with log.open("w") as out:
        started = subprocess.Popen(command(*given), env=env, stdout=out, stderr=subprocess.STDOUT, text=True)
        end = time.monotonic() + 240
        while not (runs.is_dir() and any(steps_of(folder)[2:] for folder in runs.iterdir())):
            assert started.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        (url,) = re.findall(r"metrics: (http://\S+)", log.read_text())
        series = scrape(url)
        assert series["agentmem_planned_updates_count"] == 40
        assert 2 <= series["agentmem_done_updates_count"] <= 40
        assert series["agentmem_updates_total"] >= 2
        started.send_signal(signal.SIGINT)
        assert started.wait(60) == 130, log.read_text()
    (folder,) = runs.iterdir()
    assert f"--resume {folder.name}" in plain(log.read_text())
    done = run(runs, "--resume", folder.name, *longer)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [step.update for step in steps_of(folder)] == list(range(41))


def test_a_bank_with_a_test_task_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path / "runs", *with_bank(bank(tmp_path / "bank.jsonl", split=Split.EVAL)))
    assert done.returncode == 2
    assert "bank.jsonl holds 64 records of test tasks (doors " in plain(done.stderr)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "advice.stage1.bank is missing: Stage 1 learns from the file that is named there"),
        (with_bank(Path("nowhere.jsonl")), "nowhere.jsonl can't be read: No such file or directory"),
        (
            ("--record", *with_bank(Path("b"))),
            "--record needs a final evaluation: method 'mempi-stage1' has none",
        ),
    ],
)
def test_what_cannot_be_learnt_is_one_line(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run(tmp_path / "runs", *arguments)
    assert done.returncode == 2
    assert said in " ".join(plain(done.stderr).split())
    assert "Traceback" not in done.stderr

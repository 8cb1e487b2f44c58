"""`agentmem arms` on Doors: real Ray, agents, replay server, engines; a bank, a script, nine arms."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from agentmem.app.models.resolve import resolve_for
from agentmem.config import load_config
from agentmem.evaluation.lines import TrialLine, read_lines
from agentmem.memory.bank.records import BankRecord, read_bank
from envs.registry import instances
from tests.e2e.runs import plain
from tests.e2e.test_stage1_run import bank

WARM = ("policies.memory.warmup.steps=30", "policies.memory.warmup.batch_rows=64")
SMALL = (*WARM, "engines.memory.backend=torch", "engines.memory.max_num_seqs=32", "memory.embedder=words")
TASKS, FIT = 16, 8
ASKED = ("untrained", "rag", "rag-abstain", "memrl", "stage1", "full", "full-always")


def command(out: Path, bank: Path, *more: str) -> list[str]:
    settings = [word for setting in SMALL for word in ("--set", setting)]
    words = ["mempi-doors", "--bank", str(bank), "--out", str(out)]
    sizes = ["--tasks", str(TASKS), "--fit-tasks", str(FIT)]
    return [sys.executable, "-m", "agentmem", "arms", *words, *sizes, *settings, *more]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env={**os.environ}, capture_output=True, text=True, timeout=280, check=False)


@pytest.fixture(scope="module")
def models() -> tuple[str, ...]:
    """Two memory policies, which stand for the ones after Stage 1 and after Stage 2."""
    given: list[str] = []
    for seed, option in ((1, "--stage1"), (2, "--full")):
        config = load_config("mempi-doors", [*WARM, f"policies.memory.warmup.seed={seed}"])
        given += [option, str(resolve_for(config, "memory"))]
    return tuple(given)


@pytest.fixture(scope="module")
def hints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank whose tasks read as the environment tells them, so that a room's own records are the nearest."""
    from envs.registry import spec

    path = bank(tmp_path_factory.mktemp("bank") / "bank.jsonl")
    records = [msgspec.structs.replace(record, q=spec("doors").summary) for record in read_bank(path)]
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    return path


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, hints: Path, models: tuple[str, ...]) -> Path:
    """All arms with seed 0."""
    out = tmp_path_factory.mktemp("arms") / "seed-0"
    done = run(*command(out, hints, *models))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Success on 16 held-out tasks" in done.stdout
    assert "oracle (upper bound)" in done.stdout
    return out


def by_arm(lines: list[TrialLine]) -> dict[str, dict[str | int, TrialLine]]:
    found: dict[str, dict[str | int, TrialLine]] = {}
    for line in lines:
        found.setdefault(line.condition, {})[line.instance] = line
    return found


def records_of(bank: Path) -> dict[str, BankRecord]:
    return {record.id: record for record in read_bank(bank)}


def test_every_arm_plays_the_same_held_out_tasks(first: Path) -> None:
    arms = by_arm(read_lines(first / "trials.jsonl"))
    assert set(arms) == {"none", *ASKED}
    options = load_config("mempi-doors").env.options
    held_out = set(instances("doors", options, "eval"))
    for lines in arms.values():
        assert len(lines) == TASKS
        assert set(lines) <= held_out
        assert lines.keys() == arms["none"].keys()
    for arm in ASKED:
        assert all(len(line.advice) == 1 and not line.advice[0].late for line in arms[arm].values())
    assert not any(line.advice for line in arms["none"].values())


def test_looked_up_hints_are_the_banks_and_help_a_guest_who_is_lost(first: Path, hints: Path) -> None:
    arms, records = by_arm(read_lines(first / "trials.jsonl")), records_of(hints)
    for line in arms["rag"].values():
        said = line.advice[0]
        assert said.hint == records[said.record].m
        assert records[said.record].o == str(line.instance).partition("-")[0]
        assert said.hint_tokens == 2
        assert any(line.solved)
    assert sum(any(line.solved) for line in arms["none"].values()) < TASKS
    values = [line.advice[0] for line in arms["memrl"].values()]
    assert all(said.decision == "generate" for said in values)


def test_a_policy_decides_in_one_arm_and_must_speak_in_the_others(first: Path) -> None:
    arms = by_arm(read_lines(first / "trials.jsonl"))
    assert all(line.advice[0].p_generate is not None for line in arms["full"].values())
    for arm in ("untrained", "stage1", "full-always"):
        assert {line.advice[0].decision for line in arms[arm].values()} == {"generate"}
        assert all(line.tokens["advise"] > 0 for line in arms[arm].values())
        assert all(line.prompt_tokens > 0 for line in arms[arm].values())


def test_what_is_learnt_is_learnt_on_training_tasks_without_their_own_records(
    first: Path, hints: Path
) -> None:
    lines, records = by_arm(read_lines(first / "fit.jsonl")), records_of(hints)
    train = set(instances("doors", load_config("mempi-doors").env.options, "train"))
    assert set(lines) == {"none", "rag", "memrl"}
    for arm in lines.values():
        assert len(arm) == FIT
        assert set(arm) <= train
        for instance, line in arm.items():
            assert all(records[said.record].task_id != instance for said in line.advice if said.record)


def test_a_scripts_trial_under_an_equal_hint_is_not_played_again(first: Path) -> None:
    arms = by_arm(read_lines(first / "trials.jsonl"))
    for instance, line in arms["rag-abstain"].items():
        twin = arms["rag" if line.advice[0].hint else "none"][instance]
        assert line.remembered
        assert line.episodes == twin.episodes
    assert not any(line.remembered for line in arms["rag"].values())


def test_a_finished_directory_is_only_read_and_a_changed_bank_refused(
    first: Path, hints: Path, models: tuple[str, ...], tmp_path: Path
) -> None:
    before = (first / "trials.jsonl").read_bytes()
    done = run(*command(first, hints, *models))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Success on 16 held-out tasks" in done.stdout
    assert "metrics: http" not in done.stdout
    assert (first / "trials.jsonl").read_bytes() == before
    fewer = tmp_path / "bank.jsonl"
    fewer.write_bytes(hints.read_bytes().partition(b"\n")[2])
    done = run(*command(first, fewer, *models))
    assert done.returncode == 2
    assert "holds arms of another setting: the bank" in plain(done.stderr)
    assert "Traceback" not in done.stderr


def test_a_second_seed_takes_a_scripts_trials_over_and_both_are_compared(
    first: Path, hints: Path, models: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "seed-1"
    more = ("--seed", "1", "--known", str(first), "--arms", "none,rag,rag-abstain,full")
    done = run(*command(out, hints, *models, *more))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = read_lines(out / "trials.jsonl")
    assert {line.seed for line in lines} == {1}
    assert Counter(line.condition for line in lines if line.remembered)["none"] == TASKS
    compared = run(sys.executable, "-m", "agentmem", "compare", str(first), str(out), "--json")
    told = json.loads(compared.stdout)
    assert told["seeds"] == [0, 1]
    rows = {row["arm"]: row for row in told["rows"]}
    assert rows["none"]["std"] == 0.0
    assert rows["stage1"]["by_seed"].keys() == {"0"}
    assert "stage1: not played with seed 1" in told["notes"]


def test_an_interrupted_command_goes_on(hints: Path, models: tuple[str, ...], tmp_path: Path) -> None:
    out, log = tmp_path / "arms", tmp_path / "log"
    words = command(out, hints, *models, "--arms", "none,rag,stage1")
    with log.open("w") as file:
        started = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT, text=True)
        end = time.monotonic() + 240
        while not (out / "trials.jsonl").is_file() or b'"rag"' not in (out / "trials.jsonl").read_bytes():
            assert started.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.02)
        started.send_signal(signal.SIGINT)
        status = started.wait(60)
    if status == 0:  # it was faster than the signal
        return
    assert status == 130, log.read_text()
    assert "the same command goes on" in plain(log.read_text())
    before = read_lines(out / "trials.jsonl")
    done = run(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    after = read_lines(out / "trials.jsonl")
    assert after[: len(before)] == before
    assert Counter(line.condition for line in after) == {"none": TASKS, "rag": TASKS, "stage1": TASKS}


def test_an_agent_on_an_engine_is_advised_and_plays_every_trial(
    hints: Path, models: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "arms"
    agent = ("model=tiny", "warmup.steps=30", "warmup.batch_rows=64")
    served = [word for one in agent for word in ("--set", f"policies.agent.{one}")]
    served += ["--set", "engines.agent={backend: torch, max_num_seqs: 32}"]
    more = (*served, "--arms", "rag,rag-abstain,full")
    done = run(*command(out, hints, *models, *more))
    assert done.returncode == 0, done.stdout + done.stderr
    arms = by_arm(read_lines(out / "trials.jsonl"))
    assert {arm: len(lines) for arm, lines in arms.items()} == dict.fromkeys(
        ("none", "rag", "rag-abstain", "full"), TASKS
    )
    for lines in arms.values():
        assert not any(line.remembered for line in lines.values())
        assert all(line.tokens["act"] > 0 for line in lines.values())

    # The hint stands in the prompts of the agent's turns.
    def a_prompt(line: TrialLine) -> float:
        return line.prompt_tokens / line.turns

    for instance, line in arms["rag"].items():
        assert a_prompt(line) > a_prompt(arms["none"][instance])

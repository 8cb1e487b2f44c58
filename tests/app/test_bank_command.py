"""`agentmem bank build|inspect|split|check` as they are typed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from agentmem.app.cli import app
from agentmem.app.reporting.examples import ExampleStore
from agentmem.app.reporting.rundir import RunDir
from agentmem.config import load_config, to_yaml
from agentmem.failures import AgentMemError, ConfigError, EndpointError, ModelError
from agentmem.memory.bank.records import read_bank
from agentmem.replay import EmbeddedServer, ReplayBuffer
from agentmem.trajectory import Split, Trial
from envs import registry
from tests.engine.talking import make_talker
from tests.memory.banks import lost, record, trial, won
from tests.replay.makers import make_group, played
from tests.standins.writer import WriterEndpoint, question, trouble

KEY = "sk-a-key-of-this-test"
ROOT = Path(__file__).resolve().parents[2]


def call(*words: str) -> tuple[str, int]:
    """What is printed, and the exit status. Raises what the program would print as one line."""
    result = CliRunner().invoke(app, ["bank", *words])
    if isinstance(result.exception, AgentMemError):
        raise result.exception
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.output, result.exit_code


def say(*words: str) -> str:
    output, status = call(*words)
    assert status == 0, output
    return output


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WriterEndpoint]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with WriterEndpoint(KEY) as server:
        yield server


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTMEM_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def write(path: Path, *trials: Trial) -> Path:
    path.write_bytes(b"".join(msgspec.json.encode({"ticket": t.ticket, "trial": t}) + b"\n" for t in trials))
    return path


def some(tasks: int = 4, **fields: Any) -> list[Trial]:
    return [
        trial(f"t{n}", n, lost("left"), won("right", index=1), instruction=f"Leave house {n}.", **fields)
        for n in range(tasks)
    ]


def build(server: WriterEndpoint, source: Path | str, out: Path, *more: str) -> str:
    words = ("--from", str(source), "--out", str(out), "--model", "small", "--url", server.base_url)
    return say("build", *words, *more)


def test_a_bank_is_built_from_a_file_inspected_split_and_checked(
    server: WriterEndpoint, tmp_path: Path
) -> None:
    bank = tmp_path / "bank.jsonl"
    trials = write(tmp_path / "trials.jsonl", *some(4), *some(1, split=Split.EVAL))
    text = build(server, trials, bank)
    assert f"{trials}: 8 traces of 4 tasks; 2 of the evaluation's split are left out" in text
    assert f"{bank}: 4 records, 4 of them new" in text
    assert "4 = 4 written" in text
    assert "8 asked, 0 answered before; tokens read 800, written 160" in text
    assert "4 = 4 in the bank already" in build(server, trials, bank)

    assert "4 of 4 tasks" in say("inspect", str(bank))
    assert json.loads(say("inspect", str(bank), "--json"))["kinds"] == {"pair": 4}
    assert "4 sound records of 4 tasks" in say("check", str(bank))

    parts = ("--train", str(tmp_path / "a.jsonl"), "--held-out", str(tmp_path / "b.jsonl"))
    assert "3 records of 3 tasks" in say("split", str(bank), *parts, "--share", "0.3")
    both = read_bank(tmp_path / "a.jsonl") + read_bank(tmp_path / "b.jsonl")
    assert sorted(both, key=lambda r: r.id) == sorted(read_bank(bank), key=lambda r: r.id)
    assert "none of them in" in say("check", parts[1], "--against", parts[3])
    output, status = call("check", str(bank), "--against", parts[3])
    assert status == 1
    assert f"is in {tmp_path / 'b.jsonl'}, too" in output
    with pytest.raises(ConfigError, match="is there already"):
        say("split", str(bank), *parts)


def test_a_run_gives_its_examples_and_its_buffer_and_the_environments_rules(
    server: WriterEndpoint, runs: Path, tmp_path: Path
) -> None:
    run = RunDir.create("lamer-sokoban")
    run.config_path.write_text(to_yaml(load_config("lamer-sokoban")))
    with ExampleStore(run.examples) as examples:
        examples.offer(trial("e0", "t-5", lost("left"), instruction="", environment="sokoban"), 0)
    with EmbeddedServer(run.replay_dir) as replay, ReplayBuffer(replay.url, run.name) as buffer:
        buffer.submit(make_group("a", 2))
        buffer.commit(played(buffer.claim("w", 2)))
        text = build(server, "last", tmp_path / "bank.jsonl")
    assert "last: 3 traces of 2 tasks" in text
    records = read_bank(tmp_path / "bank.jsonl")
    assert {r.task_id for r in records} == {7, "t-5"}
    assert all(r.domain == "sokoban" and "target" in r.q for r in records)


def test_a_run_whose_buffer_is_gone_gives_its_examples_and_says_so(
    server: WriterEndpoint, runs: Path, tmp_path: Path
) -> None:
    run = RunDir.create("lamer-minesweeper")
    run.config_path.write_text(to_yaml(load_config("lamer-minesweeper")))
    with pytest.raises(ConfigError, match="has no whole trial: no example, and run .* left no buffer"):
        build(server, "last", tmp_path / "bank.jsonl")
    with ExampleStore(run.examples) as examples:
        examples.offer(trial("e0", 1, lost("left"), environment="minesweeper"), 0)
    text = build(server, "last", tmp_path / "bank.jsonl")
    assert f"{run.name}: its examples alone (" in text
    assert "left no buffer" in text
    again = build(server, run.examples, tmp_path / "bank.jsonl")
    assert "1 in the bank already" in again


def test_a_source_without_anything_to_learn_from_is_refused(server: WriterEndpoint, tmp_path: Path) -> None:
    held_out = write(tmp_path / "eval.jsonl", *some(2, split=Split.EVAL))
    with pytest.raises(ConfigError, match="all its trials are evaluation's"):
        build(server, held_out, tmp_path / "bank.jsonl")
    lines = tmp_path / "trials.jsonl"
    lines.write_text('{"condition": "with_memory", "episodes": [], "seed": 0}\n')
    with pytest.raises(ConfigError, match=r"trials\.jsonl, line 1: .*holds actions but not what was seen"):
        build(server, lines, tmp_path / "bank.jsonl")
    nameless = write(tmp_path / "nameless.jsonl", *some(1)[:0], trial("t", 1, won("up"), instruction=""))
    with pytest.raises(ConfigError, match="trial t has no instruction, .*unknown environment 'house'"):
        build(server, nameless, tmp_path / "bank.jsonl")
    with pytest.raises(ConfigError, match=r"none\.jsonl can't be read"):
        build(server, tmp_path / "none.jsonl", tmp_path / "bank.jsonl")
    only_won = write(tmp_path / "won.jsonl", trial("t", 1, won("up")))
    with pytest.raises(ConfigError, match="kind is 'pair', but no task has the traces for it"):
        build(server, only_won, tmp_path / "bank.jsonl", "--set", "kind=pair")
    assert not (tmp_path / "bank.jsonl").exists()


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("hint_tokens=0", "hint_tokens is 0"),
        ("hint_tokens=9000", r"hint_tokens is 9000: must be below context_length \(8192\)"),
        ("kind=best", "kind is 'best'"),
        ("endpoint.retries=3", r"unknown key 'endpoint\.retries' .*allowed are attempts, concurrency"),
        ("endpoint.url=https://me:secret@host/v1", r"endpoint\.url of host holds a user or password"),
        ("engine.replicas=2", r"engine\.replicas is 2"),
    ],
)
def test_a_wrong_setting_is_one_line(server: WriterEndpoint, tmp_path: Path, setting: str, told: str) -> None:
    trials = write(tmp_path / "trials.jsonl", *some(1))
    with pytest.raises(ConfigError, match=told) as caught:
        build(server, trials, tmp_path / "bank.jsonl", "--set", setting)
    assert "secret" not in str(caught.value)


def test_an_endpoint_that_goes_down_in_mid_build_is_gone_on_with(
    server: WriterEndpoint, tmp_path: Path
) -> None:
    trials, bank = write(tmp_path / "trials.jsonl", *some(5)), tmp_path / "bank.jsonl"
    server.instead = lambda body: trouble(503, "overloaded") if len(server.answered) >= 5 else None
    settings = ("--set", "endpoint.attempts=1", "--set", "endpoint.concurrency=1")
    with pytest.raises(EndpointError, match="status 503: overloaded"):
        build(server, trials, bank, *settings)
    asked = len(server.answered)
    server.instead = lambda body: None
    assert "5 records" in build(server, trials, bank)
    assert len(server.answered) == asked + 5 == 10
    assert KEY not in bank.read_text() + (tmp_path / "bank.jsonl.answers").read_text()


def test_ctrl_c_ends_a_build_that_the_same_command_completes(server: WriterEndpoint, tmp_path: Path) -> None:
    trials, bank = write(tmp_path / "trials.jsonl", *some(6)), tmp_path / "bank.jsonl"
    reached, end = threading.Event(), threading.Event()

    def hang(body: dict[str, Any]) -> None:
        if "Leave house 3." in question(body):
            reached.set()
            end.wait(120)

    server.instead = hang
    words = ["--from", str(trials), "--out", str(bank), "--model", "small", "--url", server.base_url]
    command = [sys.executable, "-m", "agentmem", "bank", "build", *words, "--set", "endpoint.concurrency=1"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert reached.wait(120)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        end.set()
        process.kill()
    assert process.returncode == 130
    assert "the same command goes on, and asks nothing twice" in output
    server.instead = lambda body: None
    assert "6 records" in build(server, trials, bank)
    before = bank.read_bytes()
    bank.unlink()
    (tmp_path / "bank.jsonl.answers").unlink()
    build(server, trials, bank)
    assert bank.read_bytes() == before


def test_a_bank_with_a_test_task_is_found_out(tmp_path: Path) -> None:
    train = next(iter(registry.instances("minesweeper", {}, "train")))
    held_out = list(registry.instances("minesweeper", {}, "eval"))
    lines = [
        record("a", domain="minesweeper", task_id=train),
        record("b", domain="minesweeper", task_id=held_out[3]),
        record("c", split=Split.EVAL),
    ]
    bank = tmp_path / "bank.jsonl"
    bank.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    output, status = call("check", str(bank), "--against", "minesweeper-eval")
    assert status == 1
    assert f"line 2, field task_id: minesweeper {held_out[3]!r} is an instance of minesweeper-eval" in output
    assert "line 3, field task_id: house 'house/7' is a task of the split eval" in output
    assert "2 faults" in output
    bank.write_bytes(msgspec.json.encode(lines[0]) + b"\n")
    assert "none of them in minesweeper-eval" in say("check", str(bank), "--against", "minesweeper-eval")
    for wrong in ("minesweeper", "chess-eval", "minesweeper-test"):
        with pytest.raises(ConfigError, match=rf"--against {wrong}: must be an environment and a split"):
            say("check", str(bank), "--against", wrong)
    with pytest.raises(ConfigError, match="belongs to --against"):
        say("check", str(bank), "--set", "size=5")


def test_check_names_line_and_field_of_every_fault(tmp_path: Path) -> None:
    bank = tmp_path / "bank.jsonl"
    bank.write_text('{"id": 3}\n' + msgspec.json.encode(record()).decode() + "\n{\n")
    output, status = call("check", str(bank))
    assert status == 1
    assert "line 1, field id: expected `str`, got `int`" in output
    assert "line 1, field q: is missing" in output
    assert "line 3: no JSON" in output


def test_a_model_on_an_engine_here_writes_a_bank(tmp_path: Path) -> None:
    """A real engine and a model of one sentence: the whole way without an endpoint."""
    model = make_talker(tmp_path / "model", "Look around first. Go right.")
    trials, bank = write(tmp_path / "trials.jsonl", *some(2)), tmp_path / "bank.jsonl"
    words = ("--from", str(trials), "--out", str(bank), "--model", str(model))
    text = say("build", *words, "--set", "engine.backend=torch", "--set", "zoom_tokens=32")
    assert "2 = 2 written" in text
    assert "2 without a decisive step, so written from the whole" in text
    first, second = read_bank(bank)
    assert first.m == second.m == "Look around first. Go right."
    assert first.writer == str(model)
    assert first.tokens.completion == 2 * 6
    assert (first.tokens.prompt or 0) > 500


def test_an_engines_hint_that_never_ends_is_cut_at_its_last_sentence(tmp_path: Path) -> None:
    model = make_talker(tmp_path / "model", "Look around first. Go right.", loops=True)
    trials, bank = write(tmp_path / "trials.jsonl", *some(1)), tmp_path / "bank.jsonl"
    words = ("--from", str(trials), "--out", str(bank), "--model", str(model))
    limits = ("--set", "engine.backend=torch", "--set", "zoom=false", "--set", "hint_tokens=9")
    text = say("build", *words, *limits)
    assert "1 cut at the limit, at the last full sentence" in text
    (made,) = read_bank(bank)
    assert made.cut
    assert made.m == "Look around first. Go right.Look around first."


def test_a_model_that_cannot_be_talked_to_is_no_writer(tmp_path: Path) -> None:
    trials = write(tmp_path / "trials.jsonl", *some(1))
    words = ("--from", str(trials), "--out", str(tmp_path / "bank.jsonl"))
    with pytest.raises(ConfigError, match="model is 'tiny'"):
        say("build", *words, "--model", "tiny")
    model = make_talker(tmp_path / "model", "Go.", context=64)
    with pytest.raises(ModelError, match=r"reads 64 tokens, but the policy's context_length is 8192"):
        say("build", *words, "--model", str(model), "--set", "engine.backend=torch")

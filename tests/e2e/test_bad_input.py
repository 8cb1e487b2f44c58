"""Bad input is one clear line, before anything large is started, and an exit status of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentmem.replay.embedded import EmbeddedServer


def run(*arguments: str, runs: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentmem", "run", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "AGENTMEM_RUNS": str(runs)},
        check=False,
    )


def refused(tmp_path: Path, status: int, *arguments: str) -> str:
    """The one line of a refusal. Nothing is left behind."""
    done = run(*arguments, runs=tmp_path)
    assert done.returncode == status, done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not any(tmp_path.iterdir())
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["nope"], ["'nope'", "lamer-minesweeper"]),
        (["lamer-minesweeper", "--set", "learner.lrr=1"], ["learner.lrr", "did you mean 'lr'"]),
        (["lamer-minesweeper", "--set", "env.name=chess"], ["chess", "minesweeper", "sokoban"]),
        (["lamer-minesweeper", "--set", "env.options.sizee=4"], ["sizee", "size"]),
        (["lamer-minesweeper", "--set", "env.options.size=99"], ["size=99"]),
        (["lamer-minesweeper", "--resume", "nope"], ["nope"]),
        (
            [
                "lamer-minesweeper",
                *("--set", "method=mempi-stage1"),
                *("--set", "policies.memory={model: tiny, context_length: 8449}"),
                *("--set", "engines.memory={}"),
            ],
            ["advice.stage1.bank is missing"],
        ),
        (["mempi-mixture", "--set", "env.options.domains.chess={}"], ["domain chess", "'chess'", "doors"]),
        (
            ["mempi-mixture", "--set", "env.options.domains.small.weight=0"],
            ["domains.small.weight=0", "above 0"],
        ),
        (
            ["mempi-mixture", "--set", "env.options.leave_out=[small, large, scout]"],
            ["leave_out", "fewer than all domains (small, large, scout)"],
        ),
        (
            ["mempi-mixture", "--set", "env.options.domains.scout.env=mixture"],
            ["domains.scout.env='mixture'", "no mixture itself"],
        ),
        (
            ["mempi-mixture", "--set", "policies.agent.model=scripted:nobody"],
            ["policies.agent.model is 'scripted:nobody'", "domain small", "guest, reversed"],
        ),
        (
            [
                "mempi-doors",
                *("--set", "advice.distil_coef=0.5"),
                *("--set", "advice.stage1={max_prompt: 32, max_target: 8}"),
            ],
            ["advice.stage1.bank is missing"],
        ),
        (
            ["grpo-webshop", "--set", "env.remember_turns=9"],
            ["env.remember_turns is 9", "webshop", "doors"],
        ),
        (["lamer-minesweeper", "--record", "--set", "evaluation.tasks=0"], ["evaluation.tasks"]),
    ],
)
def test_a_wrong_setting_is_refused(arguments: list[str], names: list[str], tmp_path: Path) -> None:
    line = refused(tmp_path, 2, *arguments)
    for name in names:
        assert name in line


def test_a_model_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    line = refused(tmp_path, 3, "lamer-minesweeper", "--set", "policies.agent.model=./no/such/model")
    assert "./no/such/model" in line


def test_a_model_without_the_words_of_the_boards_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    """Its tokenizer writes ids that the model has no embedding for."""
    model = tmp_path / "model"
    model.mkdir()
    for file in tiny_model.iterdir():
        (model / file.name).write_bytes(file.read_bytes())
    config = json.loads((model / "config.json").read_text())
    config["vocab_size"] = 7
    (model / "config.json").write_text(json.dumps(config))
    runs = tmp_path / "runs"
    runs.mkdir()
    line = refused(runs, 3, "lamer-minesweeper", "--set", f"policies.agent.model={model}")
    assert "7" in line


def test_more_gpus_than_the_cluster_has_are_named_at_once(tmp_path: Path) -> None:
    line = refused(
        tmp_path, 6, "lamer-minesweeper", "--set", "engines.agent.gpus=4",
        "--set", "policies.agent.warmup.steps=1",
    )  # fmt: skip
    assert "4 GPU asked for by engines.agent" in line
    assert "the cluster has 0" in line


def test_a_redis_that_refuses_is_named(tmp_path: Path) -> None:
    line = refused(tmp_path, 5, "lamer-minesweeper", "--set", "replay.url=redis://127.0.0.1:1/0")
    assert "redis://127.0.0.1:1/0" in line


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tcp_host="127.0.0.1", maxmemory_bytes=64 << 20) as running:
        yield running


def test_a_wrong_redis_password_is_said_without_showing_any(server: EmbeddedServer, tmp_path: Path) -> None:
    host = server.tcp_url.rpartition("@")[2]
    line = refused(tmp_path, 5, "lamer-minesweeper", "--set", f"replay.url=redis://:guess@{host}")
    assert "password" in line
    assert "guess" not in line


def test_a_redis_that_evicts_is_refused(server: EmbeddedServer, tmp_path: Path) -> None:
    import redis

    redis.Redis.from_url(server.tcp_url).config_set("maxmemory-policy", "allkeys-lru")
    line = refused(tmp_path, 5, "lamer-minesweeper", "--set", f"replay.url={server.tcp_url}")
    assert "allkeys-lru" in line
    assert "noeviction" in line

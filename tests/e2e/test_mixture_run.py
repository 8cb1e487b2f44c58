"""Whole runs of a memory policy for several environments, and its evaluation beside other agents."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentmem.app.reporting.records import EvalRecord, EventRecord, read_records
from agentmem.evaluation.lines import TrialLine, read_lines
from agentmem.trajectory import domain_of
from tests.e2e.runs import Run
from tests.e2e.test_mempi_run import FROZEN, SMALL
from tests.standins.serving import Response
from tests.standins.writer import WriterEndpoint, completion, question

MIXED = (*SMALL, "learner.updates=2", "evaluation.tasks=24", "env.options.leave_out=[large]")
TEXT = tuple(
    f"env.options.domains.{domain}={{env: doors, options: {{kinds: 8, rooms: 3, doors: 4, rule: 2, "
    "format: text, advice: words}}"
    for domain in ("small", "large")
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mixture") / "runs"


@pytest.fixture(scope="module")
def trained(runs: Path) -> Path:
    """A finished run without the domain `large`."""
    runs.mkdir()
    done = agentmem(runs, "run", "mempi-mixture", *MIXED)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (path for path in runs.iterdir() if path.name != "evals")
    (run / "printed.txt").write_text(done.stdout)
    return run


def agentmem(runs: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command, target, *settings = arguments
    flags = [part for setting in settings for part in ("--set", setting)]
    return subprocess.run(
        [sys.executable, "-m", "agentmem", command, target, *flags],
        env={**os.environ, "AGENTMEM_RUNS": str(runs), **environment},
        capture_output=True,
        text=True,
        timeout=400,
    )


def evaluated(trained: Path, *settings: str, **environment: str) -> tuple[str, Path]:
    before = set((trained.parent / "evals").glob("*"))
    done = agentmem(trained.parent, "eval", str(trained), *settings, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = set((trained.parent / "evals").glob("*")) - before
    return done.stdout, folder


def test_a_run_trains_by_weight_without_a_domain_and_is_evaluated_on_all(trained: Path) -> None:
    records = read_records(trained / "metrics.jsonl")
    updates = [r for r in records if hasattr(r, "groups")]
    assert [set(u.domains) for u in updates] == [{"small", "scout"}] * 2
    for update in updates:
        for counts in update.domains.values():
            assert (counts["groups"], counts["trials"]) == (2, 10)
            assert (counts["trials_generate"], counts["trials_abstain"]) == (6, 4)
            assert (counts["choices"], 0 <= counts["would_abstain"] <= 4) == (4, True)
    evals = [r for r in records if isinstance(r, EvalRecord)]
    assert len(evals) == 4
    for record in evals:
        assert {name: one.n for name, one in record.domains.items()} == {"small": 8, "large": 8, "scout": 8}
        assert {name: one.trained for name, one in record.domains.items()} == {
            "small": True,
            "large": False,
            "scout": True,
        }
        advised = record.condition == "with_memory"
        assert all((one.abstained is not None) is advised for one in record.domains.values())
    printed = (trained / "printed.txt").read_text()
    assert "large*" in printed
    assert "left out of training" in printed
    assert "mean of domains" in printed


def test_an_evaluation_with_another_scripted_agent_says_so_and_plays_it(trained: Path) -> None:
    printed, folder = evaluated(trained, "policies.agent.model=scripted:reversed")
    assert "trained with agent scripted, evaluated with agent scripted:reversed" in printed
    assert "large*" in printed
    assert any(isinstance(r, EventRecord) for r in read_records(folder / "metrics.jsonl"))
    alone = [line for line in read_lines(folder / "trials.jsonl") if not line.advice]
    assert {first_door(line) for line in alone if line.domain != "scout"} == {"black"}


def test_an_evaluation_with_a_model_that_was_never_advised_runs_it_on_engines(trained: Path) -> None:
    printed, folder = evaluated(trained, *FROZEN)
    assert "evaluated with agent tiny" in printed
    lines = read_lines(folder / "trials.jsonl")
    assert {line.domain for line in lines} == {"small", "large", "scout"}
    assert all(line.tokens["act"] > 0 for line in lines)


@pytest.fixture
def endpoint() -> Iterator[WriterEndpoint]:
    def opens(body: dict[str, Any]) -> Response:
        """The door that a hint names, else the black one."""
        hint = question(body).partition("Hint: ")[2].split()
        door = next((word for word in hint if word in ("red", "blue", "green", "black")), "black")
        return completion(f"<action>{door}</action>")

    with WriterEndpoint("sk-of-the-agent") as server:
        server.instead = opens
        yield server


def test_an_evaluation_with_an_agent_behind_an_endpoint_shows_it_the_hints(
    trained: Path, endpoint: WriterEndpoint
) -> None:
    domains = "env.options.leave_out=[]"
    printed, folder = evaluated(
        trained,
        "env.options.domains={}",
        *TEXT,
        domains,
        "policies.agent.model=somebody",
        f"policies.agent.endpoint={{url: '{endpoint.base_url}', key_env: AGENT_KEY}}",
        "policies.agent.context_length=4096",
        "evaluation.sampling.max_tokens=64",
        AGENT_KEY="sk-of-the-agent",
    )
    assert f"evaluated with agent somebody at {endpoint.base_url}" in printed
    lines = read_lines(folder / "trials.jsonl")
    assert {line.domain for line in lines} == {"small", "large"}
    hinted = [line for line in lines if any(a.hint_tokens for a in line.advice)]
    asked = [question(body) for body in endpoint.asked]
    assert sum("Hint: " in text for text in asked) >= len(hinted)
    assert {first_door(line) for line in lines if not line.advice} == {"black"}
    assert "sk-of-the-agent" not in printed


def test_a_mixture_of_games_trains_an_agent_that_learns_by_retries(start: Callable[..., Run]) -> None:
    run = start(
        "lamer-scout",
        "env.name=mixture",
        "env.options={domains: {scout: {options: {format: compact}}, "
        "doors: {options: {rooms: 2, doors: 3, format: compact}}}}",
        *("policies.agent.warmup.steps=30", "policies.agent.warmup.batch_rows=64"),
        *("engines.agent.backend=torch", "engines.agent.max_num_seqs=16"),
        *("rollout.tasks_per_update=4", "rollout.group_size=4", "evaluation.tasks=16", "learner.updates=2"),
    )
    assert run.end() == 0, run.output()
    for record in run.records("update"):
        assert {name: counts["groups"] for name, counts in record["domains"].items()} == {
            "scout": 2,
            "doors": 2,
        }
    lines = read_lines(run.path / "trials.jsonl")
    assert {domain_of(line.instance) for line in lines} == {"scout", "doors"}


def first_door(line: TrialLine) -> str:
    return line.episodes[0].actions[0]

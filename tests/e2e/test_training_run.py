"""A whole run, as a user starts it: vLLM, Redis, DeepSpeed and Ray; what it prints and leaves behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import yaml

from agentmem.evaluation.lines import read_lines
from tests.e2e.runs import TINY, TORCH, Run, plain


def agentmem(*arguments: str, runs: Path) -> str:
    """What a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "agentmem", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**__import__("os").environ, "AGENTMEM_RUNS": str(runs)},
    )
    return done.stdout


def test_a_run_with_written_reflections_trains_them_and_reports(start: Callable[..., Run]) -> None:
    run = start("lamer-minesweeper-reflect", *TINY, "learner.updates=4")
    assert run.end() == 0, run.output()

    updates = run.records("update")
    assert [r["update"] for r in updates] == [1, 2, 3, 4]
    assert updates[-1]["version"] == 4
    assert all(r["reflection_tokens"] > 0 for r in updates)
    assert all(r["trained_tokens"] > 0 for r in updates)
    # Rows are act and reflect turns; without reflections there could be no more rows than act tokens.
    assert all(abs(r["mismatch_kl"]) < 0.5 for r in updates)

    evals = {(r["update"], r["condition"]) for r in run.records("eval")}
    assert evals == {(u, c) for u in (0, 4) for c in ("with_memory", "without_memory")}
    assert [r["update"] for r in run.records("gap")] == [0, 4]
    lines = read_lines(run.path / "trials.jsonl")
    assert {(line.update, line.condition) for line in lines} == evals
    assert len(lines) == 4 * 16
    table = plain(run.output())
    for row in ("with before", "without after", "gap before", "gap after"):
        assert row in table
    for name in ("final_model/config.json", "final_model/model.safetensors", "curve.png", "examples.txt"):
        assert (run.path / name).stat().st_size > 0
    assert yaml.safe_load((run.path / "config.yaml").read_text())["rollout"]["memory"] == "reflection"

    shown = agentmem("show", "last", runs=run.runs)
    assert "Reflection:" in shown
    assert "move:" in shown


def test_the_final_model_is_a_hugging_face_model_that_differs_from_the_start(
    start: Callable[..., Run],
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    run = start("lamer-minesweeper", *TINY, *TORCH, "learner.updates=2", "evaluation.tasks=0")
    assert run.end() == 0, run.output()
    model = AutoModelForCausalLM.from_pretrained(run.path / "final_model")
    tokenizer = AutoTokenizer.from_pretrained(run.path / "final_model")
    ids = tokenizer("Try 1 now ???? 2??? ???? ???? move:", return_tensors="pt").input_ids
    answer = tokenizer.decode(model.generate(ids, max_new_tokens=1, do_sample=False)[0, ids.shape[1] :])
    assert answer.startswith("(")


def test_sokoban_runs_end_to_end_in_env_workers(start: Callable[..., Run]) -> None:
    run = start(
        "lamer-sokoban",
        "learner.updates=2",
        "env.max_turns=2",
        "evaluation.episodes=2",
        "evaluation.tasks=4",
        "policies.agent.warmup.steps=2",
    )
    assert run.end() == 0, run.output()
    assert len(run.records("update")) == 2


def test_two_of_everything_work_together(start: Callable[..., Run]) -> None:
    run = start(
        "lamer-minesweeper",
        *TINY,
        "learner.updates=3",
        "learner.ranks=2",
        "learner.zero_stage=2",
        "agents.replicas=2",
        "env.placement=worker",
        "env.workers=2",
        "engines.agent.replicas=2",
    )
    assert run.end() == 0, run.output()
    updates = run.records("update")
    assert [r["trials"] for r in updates] == [16, 16, 16]
    assert updates[-1]["version"] == 3


def test_plain_rl_is_the_same_loop_with_one_episode(start: Callable[..., Run]) -> None:
    run = start("gigpo-minesweeper", *TINY, *TORCH, "learner.updates=2")
    assert run.end() == 0, run.output()
    assert all(len(r["p_at_k"]) == 1 for r in run.records("update"))
    # Evaluated over three episodes all the same, with and without memory.
    assert {len(r["p_at_k"]) for r in run.records("eval")} == {3}

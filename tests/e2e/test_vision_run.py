"""Whole runs of a memory policy that sees: screenshots from the environment to the learner and back."""

from __future__ import annotations

from collections.abc import Callable

from agentmem.app.reporting.examples import load_examples
from agentmem.evaluation.lines import read_lines
from agentmem.vision.directory import sees
from tests.e2e.runs import Run
from tests.e2e.test_mempi_run import SMALL


def test_a_policy_that_sees_is_trained_on_what_the_environment_shows(start: Callable[..., Run]) -> None:
    run = start("mempi-doors-vision", *SMALL, "replay.max_staleness=0")
    assert run.end() == 0, run.output()
    updates = run.records("update")
    assert [record["version"] for record in updates] == [1, 2, 3]
    assert all(record["advice"]["contexts"] == 4 for record in updates)
    assert sees(run.path / "final_model")
    turns = [turn for each in load_examples(run.path / "examples.msgpack") for turn in each.trial.advice]
    assert turns
    assert all(turn.image is not None for turn in turns)
    advised = [line for line in read_lines(run.path / "trials.jsonl") if line.condition == "with_memory"]
    assert advised
    assert not any(line.advice[0].late for line in advised)


def test_pictures_for_a_policy_that_reads_text_alone_are_refused_before_the_start(
    start: Callable[..., Run],
) -> None:
    run = start("mempi-doors", *SMALL, "env.options.screenshot=true")
    assert run.end() == 3
    assert "env.options.screenshot is true" in run.output()

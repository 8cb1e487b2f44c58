"""Mem-π's health in `metrics.jsonl` and in metrics: of an update's groups, and of an evaluation's lines."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from agentmem.app.evaluation.evaluate import advice_record
from agentmem.app.live.exports import export_advice
from agentmem.app.reporting.progress import Progress
from agentmem.app.reporting.records import UpdateRecord
from agentmem.app.training.update_record import choices_of
from agentmem.evaluation.lines import AdviceLine, EpisodeLine, TrialLine
from agentmem.memory.advice_health import health_of
from agentmem.telemetry import Metrics
from agentmem.telemetry.prometheus import PrometheusSeries
from agentmem.trajectory import Trial
from tests.learner_group.advised import structured


def asked(trials: list[Trial], gap: float) -> list[Trial]:
    """The choice was asked in the trials that abstain; their actions say so."""
    told = []
    for trial in trials:
        (turn,) = trial.advice
        if trial.mode.advice == "abstain":
            turn = replace(turn, actions=("abstain",), gap=gap)
        else:
            turn = replace(turn, actions=("generate",))
        told.append(replace(trial, advice=(turn,)))
    return told


@pytest.mark.parametrize(
    ("wins", "alone"),
    [((True, True), 1.0), ((True, False), 0.5), ((False, False), 0.0), ((None, None), None)],
)
def test_a_groups_own_choices_know_how_the_agent_fares_alone(
    wins: tuple[bool | None, bool | None], alone: float | None
) -> None:
    trials = asked(structured(wins, [True, False, True]), gap=-1.0)
    choices = choices_of(trials, threshold=0.0)
    assert [(c.abstains, c.alone) for c in choices] == [(True, alone)] * 2
    assert choices[0].p_generate == pytest.approx(1 / (1 + math.e))
    assert not any(c.abstains for c in choices_of(trials, threshold=-2.0))


def line(instance: int, solved: bool, condition: str, said: AdviceLine | None = None) -> TrialLine:
    episode = EpisodeLine(solved=solved, stop="success", score=None, actions=["a"], invalid=0, path="p")
    return TrialLine(
        condition=condition, seed=1, instance=instance, episodes=[episode], score=None, tokens={},
        prompt_tokens=1, wall_s=0.1, advice=[said] if said else [],
    )  # fmt: skip


def test_an_evaluation_tells_abstention_on_tasks_that_the_agent_solves_alone_and_on_others() -> None:
    silent = AdviceLine(decision="abstain", p_generate=0.1, hint_tokens=0)
    speaks = AdviceLine(decision="generate", p_generate=0.95, hint_tokens=6)
    late = AdviceLine(decision="abstain", p_generate=None, hint_tokens=0, late=True)
    alone = [line(n, n < 2, "without_memory") for n in range(4)]
    advised = [line(n, True, "with_memory", said) for n, said in enumerate((silent, speaks, speaks, late))]
    record = advice_record([*alone, *advised], 0)
    assert record is not None
    assert (record.asked, record.late, record.easy, record.hard) == (3, 1, 2, 1)
    assert (record.abstains, record.abstains_easy, record.abstains_hard) == (1 / 3, 0.5, 0.0)
    assert record.p_generate == [0, 1, 0, 0, 0, 0, 0, 0, 0, 2]
    assert record.hint_tokens == 3.0
    assert advice_record(advised, 0) is not None
    assert advice_record(alone, 0) is None
    assert advice_record([*alone, *advised], 7) is None


def record(n: int, **advice: float) -> UpdateRecord:
    return UpdateRecord(update=n, version=n, t=float(n), trials=8, p_at_k=[0.5], advice=advice)


def test_health_is_in_the_progress_line_and_in_metrics() -> None:
    progress = Progress(updates=9)
    progress.add(record(1, asked=10, abstains=0.2, easy=4, abstains_easy=0.5, hard=6, abstains_hard=0.0))
    progress.add(record(2, asked=30, abstains=0.4))
    assert progress.figures()["abstains"] == "35%  easy 50%  hard 0%"
    assert "abstains 35%" in progress.line(1.0)
    series = PrometheusSeries(("agentmem_abstention_ratio", "agentmem_advice_value"))
    export_advice(Metrics("r", series), record(3, abstains=0.25, abstains_easy=0.5, gate_open_share=0.75))
    text = series.text().decode()
    assert 'agentmem_abstention_ratio{reason="train easy",run="r"} 0.5' in text
    assert 'agentmem_abstention_ratio{reason="train",run="r"} 0.25' in text
    assert 'agentmem_advice_value{reason="gate_open_share",run="r"} 0.75' in text


def test_a_run_without_a_memory_policy_says_nothing_of_it() -> None:
    progress = Progress(updates=9)
    progress.add(record(1))
    assert "abstains" not in progress.figures()
    assert health_of([]).asked == 0

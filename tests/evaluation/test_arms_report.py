"""Arms beside each other: success over seeds, decisions, what hints cost; from trials' lines alone."""

from __future__ import annotations

import msgspec
import pytest

from agentmem.evaluation.arms import Decisions, arms_report, decisions, oracle_lines
from agentmem.evaluation.lines import AdviceLine, TrialLine
from tests.evaluation.made import episode, trial


def line(
    task: int, solved: bool, *, tokens: int | None = None, seed: int = 0, late: bool = False
) -> TrialLine:
    """`tokens`: of the hint; 0 abstains; None: nobody was asked."""
    said = []
    if tokens is not None:
        decision = "generate" if tokens else "abstain"
        said = [AdviceLine(decision=decision, p_generate=None, hint_tokens=tokens, late=late)]
    made = trial(episode(("a",), solved), instance=task, seed=seed)
    return msgspec.structs.replace(made, advice=said)


def lines(solved: str, tokens: str = "", seed: int = 0) -> list[TrialLine]:
    """`+-`: solved or not, by task; `tokens`: digits, by task."""
    given = [int(t) for t in tokens] or [None] * len(solved)
    return [
        line(n, s == "+", tokens=t, seed=seed) for n, (s, t) in enumerate(zip(solved, given, strict=True))
    ]


NONE = {0: lines("++--", seed=0), 1: lines("++--", seed=1)}
FULL = {0: lines("++++", "0033", seed=0), 1: lines("+-+-", "0330", seed=1)}
ALWAYS = {0: lines("+-++", "3333", seed=0), 1: lines("+-++", "3333", seed=1)}


def test_success_is_a_mean_with_a_deviation_over_seeds() -> None:
    report = arms_report({"none": NONE, "full": FULL})
    none, full = report.rows
    assert (none.mean, none.std) == (0.5, 0.0)
    assert full.by_seed == {0: 1.0, 1: 0.5}
    assert full.mean == 0.75
    assert full.std == pytest.approx(0.353553, abs=1e-6)
    assert arms_report({"none": {0: NONE[0]}}).rows[0].std is None


def test_abstention_counts_no_tokens_and_is_told_by_difficulty() -> None:
    _, full = arms_report({"none": NONE, "full": FULL}).rows
    assert full.hint_tokens == 12 / 8
    assert full.abstained is not None
    assert full.abstained_easy is not None
    assert full.abstained_hard is not None
    assert (full.abstained.value, full.abstained.n) == (0.5, 8)
    assert (full.abstained_easy.value, full.abstained_easy.n) == (0.75, 4)
    assert (full.abstained_hard.value, full.abstained_hard.n) == (0.25, 4)


def test_a_task_is_easy_if_the_agent_alone_solves_half_of_its_trials() -> None:
    sometimes = {0: lines("-"), 1: lines("-", seed=1), 2: lines("+", seed=2)}
    assert arms_report({"none": sometimes}).easy == 0
    assert arms_report({"none": {0: lines("+"), 1: lines("-", seed=1)}}).easy == 1


def test_what_a_hint_loses_and_wins_is_paired_with_the_agent_alone() -> None:
    _, full = arms_report({"none": NONE, "full": FULL}).rows
    assert full.lost is not None
    assert full.won is not None
    assert (full.lost.value, full.lost.n) == (0.25, 4)
    assert (full.won.value, full.won.n) == (0.75, 4)


def test_decisions_are_judged_by_the_same_arm_that_always_speaks() -> None:
    found = decisions("full", "full-always", FULL, ALWAYS, NONE)
    assert found == Decisions(
        arm="full",
        judged_by="full-always",
        generate={"helps": 3, "hurts": 1, "equal": 0},
        abstain={"helps": 1, "hurts": 1, "equal": 2},
    )
    assert decisions("full", "full-always", FULL, {}, NONE) is None


def test_the_oracle_takes_the_better_of_none_and_always_and_says_nothing_where_they_are_equal() -> None:
    (best,) = oracle_lines({0: NONE[0]}, {0: ALWAYS[0]}).values()
    assert [any(each.solved) for each in best] == [True, True, True, True]
    assert [bool(each.advice) for each in best] == [False, False, True, True]
    assert {each.condition for each in best} == {"oracle"}
    report = arms_report({"none": NONE, "full-always": ALWAYS})
    assert [row.arm for row in report.rows] == ["none", "full-always", "oracle"]
    assert report.rows[-1].mean == 1.0


def test_differences_are_paired_by_task_and_told_by_seed() -> None:
    report = arms_report({"none": NONE, "rag": ALWAYS, "full": FULL})
    by_name = {(c.a, c.b): c for c in report.contrasts}
    assert set(by_name) == {("none", "rag"), ("none", "full"), ("rag", "full")}
    contrast = by_name["none", "full"]
    assert contrast.by_seed == {0: 0.5, 1: 0.0}
    assert contrast.tasks.value == 0.25
    assert (contrast.tasks.tasks, contrast.tasks.wins, contrast.tasks.losses) == (4, 2, 1)
    assert contrast.seeds_low is not None
    assert contrast.seeds_low < 0.25


def test_only_trials_that_both_arms_have_are_compared_and_what_is_missing_is_said() -> None:
    report = arms_report({"none": NONE, "full": {1: FULL[1][:3]}})
    (contrast,) = report.contrasts
    assert contrast.tasks.tasks == 3
    assert list(contrast.by_seed) == [1]
    assert report.notes == [
        "full: not played with seed 0",
        "full, seed 1: 1 of 4 trials aren't there",
    ]


def test_late_answers_are_counted() -> None:
    late = {0: [line(0, False, tokens=0, late=True), line(1, True, tokens=0)]}
    report = arms_report({"none": {0: lines("-+")}, "full": late})
    assert [row.late for row in report.rows] == [0, 1]


def test_without_the_agent_alone_nothing_is_said() -> None:
    with pytest.raises(ValueError, match="'none' wasn't played"):
        arms_report({"full": FULL})

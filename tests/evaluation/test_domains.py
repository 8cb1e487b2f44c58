"""An evaluation of several environments: as many tasks of each, figures of each, and their mean."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.evaluation.domains import figures_by_domain, mean_over_domains
from agentmem.evaluation.held_out import evaluation_instances, evaluation_tickets
from agentmem.evaluation.lines import AdviceLine, TrialLine
from agentmem.evaluation.pass_at_k import Share, wilson
from agentmem.trajectory import Mode
from tests.evaluation.made import outcome

MIXED = [*(f"@a#{i}" for i in range(100)), *(f"@b/x{i}" for i in range(3)), *(f"@c#{i}" for i in range(50))]


def advised(line: TrialLine, *decisions: str) -> TrialLine:
    said = [
        AdviceLine(decision=d, p_generate=None, hint_tokens=4 if d == "generate" else 0, late=d == "late")
        for d in decisions
    ]
    said = [msgspec.structs.replace(a, decision="abstain") if a.late else a for a in said]
    return msgspec.structs.replace(line, advice=said)


def test_each_domain_gets_as_many_tasks_and_a_small_one_gives_all_it_has() -> None:
    chosen = evaluation_instances(MIXED, 31, seed=0)
    assert len(set(chosen)) == len(chosen)
    counts = {domain: sum(str(i).startswith(f"@{domain}") for i in chosen) for domain in "abc"}
    assert counts == {"a": 11, "b": 3, "c": 10}
    assert evaluation_instances(MIXED, 31, seed=0) == chosen != evaluation_instances(MIXED, 31, seed=1)


def test_a_domains_tasks_are_those_of_its_environment_alone() -> None:
    alone = evaluation_instances(range(100), 20, seed=3)
    assert evaluation_instances(MIXED, 60, seed=3)[:20] == [f"@a#{i}" for i in alone]


def test_a_ticket_says_its_domain() -> None:
    tickets = evaluation_tickets("mixture", MIXED, 6, 0, "e", Mode())
    assert [t.task.domain for t in tickets] == ["a", "a", "b", "b", "c", "c"]
    assert len({t.id for t in tickets}) == 6


def test_figures_are_told_by_domain_with_intervals() -> None:
    lines = [
        advised(outcome(1, 1, instance="@a#1"), "generate"),
        advised(outcome(0, 1, instance="@a#2"), "abstain"),
        advised(outcome(1, 1, instance="@a#3"), "late"),
        advised(outcome(0, 1, instance="@b/x"), "abstain"),
    ]
    found = figures_by_domain(lines, 1, left_out=["b"])
    assert list(found) == ["a", "b"]
    a, b = found["a"], found["b"]
    assert a.share(0) == wilson(2, 3)
    assert (a.abstained, b.abstained) == (
        [0.5, wilson(1, 2).low, wilson(1, 2).high],
        [1.0, wilson(1, 1).low, 1.0],
    )
    assert a.hint_tokens == pytest.approx(4 / 3)
    assert (a.trained, b.trained) == (True, False)
    assert figures_by_domain([outcome(1, instance="hall-attic"), outcome(0, instance=3)], 3) == {}
    (plain,) = figures_by_domain([outcome(2, instance="@a#1")], 3).values()
    assert (plain.p_at_k, plain.abstained, plain.hint_tokens) == ([0.0, 1.0, 1.0], None, None)


shares = st.integers(1, 300).flatmap(lambda n: st.integers(0, n).map(lambda k: wilson(k, n)))


@settings(deadline=None)
@given(st.lists(shares, min_size=1, max_size=6))
def test_the_mean_over_domains_weighs_each_alike_and_is_surer_than_the_least_sure(found: list[Share]) -> None:
    mean = mean_over_domains(found)
    assert mean.value == pytest.approx(sum(s.value for s in found) / len(found))
    assert 0 <= mean.low <= mean.value <= mean.high <= 1
    assert mean.high - mean.low <= max(s.high - s.low for s in found) + 1e-9
    assert mean.n == sum(s.n for s in found)
    if len(found) == 1:
        assert (mean.low, mean.high) == pytest.approx((found[0].low, found[0].high))


def test_no_domain_has_no_mean() -> None:
    with pytest.raises(ValueError, match="no domain"):
        mean_over_domains([])

"""Success within equal budgets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.evaluation.budget import Cost, budget_curve, common_cut, cost_of, spent, within_budget
from agentmem.evaluation.lines import TrialLine
from agentmem.evaluation.pass_at_k import pass_at_k
from tests.evaluation.made import episode, outcome, trial

WON, LOST = episode("ab", solved=True), episode("ab")
LINES = [
    trial(WON, tokens={"act": 2}, wall_s=1.0),
    trial(LOST, WON, tokens={"act": 4, "reflect": 10}, wall_s=3.0),
    trial(LOST, LOST, LOST, tokens={"act": 6, "reflect": 20, "tip": 1}, wall_s=9.0),
]


def test_every_token_and_second_is_counted() -> None:
    total = spent(LINES)
    assert (total.trials, total.episodes, total.turns) == (3, 6, 12)
    assert total.tokens == {"act": 12, "reflect": 30, "tip": 1}
    assert (total.sampled_tokens, total.prompt_tokens, total.wall_s) == (43, 30, 13.0)


def test_a_reflection_is_paid_for_by_the_success_that_follows_it() -> None:
    assert [within_budget(LINES, Cost.TOKENS, b).value for b in (1, 2, 13, 14, 99)] == pytest.approx(
        [0, 1 / 3, 1 / 3, 2 / 3, 2 / 3]
    )
    assert within_budget(LINES, Cost.WALL, 2.9).value == pytest.approx(1 / 3)


def test_arms_are_comparable_up_to_the_dearest_trial_of_the_cheaper_one() -> None:
    cheap = LINES[:2]
    assert common_cut([LINES, cheap], Cost.TOKENS) == 14
    assert common_cut([LINES, cheap], Cost.EPISODES) == 2
    assert common_cut([LINES], Cost.WALL) == 9.0


def test_the_curve_has_a_corner_for_each_success_and_ends_at_the_dearest_trial() -> None:
    assert budget_curve(LINES, Cost.EPISODES) == [(0, 0), (1, 1 / 3), (2, 2 / 3), (3, 2 / 3)]
    assert budget_curve(LINES[2:], Cost.TOKENS) == [(0, 0), (27, 0)]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_with_episodes_as_the_budget_it_is_pass_at_k(solved_in: list[int]) -> None:
    lines: list[TrialLine] = [outcome(n, instance=i) for i, n in enumerate(solved_in)]
    shares = pass_at_k([line.solved for line in lines], 3)
    assert [within_budget(lines, Cost.EPISODES, k) for k in (1, 2, 3)] == shares
    for at, value in budget_curve(lines, Cost.TOKENS):
        assert value == pytest.approx(within_budget(lines, Cost.TOKENS, at).value)
        assert at <= max(cost_of(line, Cost.TOKENS) for line in lines)

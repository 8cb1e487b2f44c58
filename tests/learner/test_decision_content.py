"""Mem-π's decoupled advantages."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.credit.decision_content import decision_content, sampled_decisions

fast = settings(deadline=None, max_examples=80)
reward = st.floats(0, 1)


@fast
@given(reward, st.lists(reward, min_size=1, max_size=7), st.sampled_from(["hard", "none"]))
def test_decision_advantages_sum_to_zero_over_the_group(abstain, tasks, gate):
    got = decision_content(abstain, tasks, [0] * len(tasks), gate=gate)
    assert got.adv_abstain + len(tasks) * got.adv_generate == pytest.approx(0, abs=1e-9)
    assert sum(got.adv_content) == pytest.approx(0, abs=1e-9)


@fast
@given(reward, st.lists(reward, min_size=1, max_size=7))
def test_a_closed_gate_teaches_no_content_and_leaves_the_decision_alone(abstain, tasks):
    hard = decision_content(abstain, tasks, [0] * len(tasks), gate="hard")
    none = decision_content(abstain, tasks, [0] * len(tasks), gate="none")
    assert (hard.adv_abstain, hard.adv_generate) == (none.adv_abstain, none.adv_generate)
    assert hard.adv_content == (none.adv_content if hard.delta > 0 else tuple([0.0] * len(tasks)))


def test_the_gate_is_closed_when_hints_help_exactly_as_much_as_silence():
    got = decision_content(0.5, [0.0, 1.0], [0, 0], length_weight=0.0)
    assert got.delta == 0.0
    assert got.gate == 0.0


def test_a_group_that_nobody_solves_teaches_abstention_weakly():
    # Only the length penalty differs; without the floor the decision advantage would be at full strength.
    floored = decision_content(0.0, [0.0] * 7, [26] * 7, std_floor=0.1)
    bare = decision_content(0.0, [0.0] * 7, [26] * 7, std_floor=1e-9)
    assert floored.adv_abstain < 0.1
    assert bare.adv_abstain > 2.0


def test_the_length_penalty_grows_to_its_weight_and_no_further():
    got = decision_content(0.0, [1.0, 1.0, 1.0], [0, 128, 1000], l_max=256, length_weight=0.1)
    assert got.rewards == pytest.approx((1.0, 0.95, 0.9))


@pytest.mark.parametrize("failed", [None, math.nan, math.inf])
def test_a_failed_branch_is_nobodys_peer(failed):
    got = decision_content(0.0, [1.0, failed, 0.0], [10, 10, 10])
    without = decision_content(0.0, [1.0, 0.0], [10, 10])
    assert got.rewards[1] is None
    assert got.adv_content[1] is None
    assert (got.adv_content[0], got.adv_content[2]) == without.adv_content
    assert (got.v_gen, got.adv_abstain) == (without.v_gen, without.adv_abstain)


def test_a_branch_with_reward_zero_is_a_peer():
    assert decision_content(0.0, [1.0, 0.0], [0, 0]).v_gen == 0.5


@pytest.mark.parametrize(("abstain", "tasks"), [(None, [1.0]), (math.nan, [1.0]), (0.5, [None]), (0.5, [])])
def test_without_both_sides_there_is_no_group(abstain, tasks):
    assert decision_content(abstain, tasks, [0] * len(tasks)) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"std_floor": 0.0}, "std_floor is 0.0"),
        ({"l_max": 0}, "l_max is 0"),
        ({"gate": "soft"}, "'soft': hard or none"),
    ],
)
def test_options_that_would_divide_by_zero_or_mean_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        decision_content(0.0, [1.0], [1], **options)
    with pytest.raises(ValueError, match=message):
        sampled_decisions([False], [1.0], [1], **options)


@fast
@given(reward, st.lists(reward, min_size=1, max_size=7), st.sampled_from(["hard", "none"]))
def test_sampled_decisions_with_one_abstention_are_the_structured_group(abstain, tasks, gate):
    structured = decision_content(abstain, tasks, [5] * len(tasks), gate=gate)
    sampled = sampled_decisions(
        [True] + [False] * len(tasks), [abstain, *tasks], [0] + [5] * len(tasks), gate=gate
    )
    assert sampled[0] == pytest.approx((structured.adv_abstain, 0.0))
    for (decision, content), expected in zip(sampled[1:], structured.adv_content, strict=True):
        assert decision == pytest.approx(structured.adv_generate, abs=1e-9)
        assert content == pytest.approx(expected, abs=1e-9)


def test_when_all_answers_decided_alike_only_their_hints_are_compared():
    spoken = sampled_decisions([False, False], [1.0, 0.0], [0, 0])
    assert [decision for decision, _ in spoken] == [0.0, 0.0]
    assert spoken[0][1] > 0 > spoken[1][1]
    assert sampled_decisions([True, True], [1.0, 0.0], [0, 0]) == [(0.0, 0.0), (0.0, 0.0)]
    assert sampled_decisions([True, False], [None, None], [0, 0]) == [None, None]

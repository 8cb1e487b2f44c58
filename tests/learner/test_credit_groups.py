"""Group baselines: what they are invariant to, and who is whose peer."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.credit.assign import Credit, assign
from learner.credit.groups import compare_by_index, grpo, rloo
from learner.credit.trial import EpisodeRewards, TrialRewards

scores = st.lists(st.floats(-10, 10, allow_nan=False), min_size=2, max_size=12)
fast = settings(deadline=None, max_examples=80)


def trial(*episodes, reflections=None, valid=True):
    count = len(episodes) - 1 if reflections is None else reflections
    return TrialRewards(tuple(EpisodeRewards(tuple(e)) for e in episodes), count, valid)


@fast
@given(scores)
def test_advantages_of_a_group_sum_to_zero(values):
    assert sum(grpo(values, "mean")) == pytest.approx(0, abs=1e-9)
    assert sum(grpo(values, "mean_std")) == pytest.approx(0, abs=1e-4)
    assert sum(rloo(values)) == pytest.approx(0, abs=1e-9)


@fast
@given(scores)
def test_leave_one_out_is_the_centred_value_stretched_by_n_over_n_minus_one(values):
    n = len(values)
    assert rloo(values) == pytest.approx([a * n / (n - 1) for a in grpo(values, "mean")], abs=1e-9)


@fast
@given(scores, st.floats(-100, 100))
def test_a_constant_added_to_every_reward_changes_no_advantage(values, constant):
    moved = [x + constant for x in values]
    assert grpo(moved, "mean") == pytest.approx(grpo(values, "mean"), abs=1e-9)
    assert rloo(moved) == pytest.approx(rloo(values), abs=1e-9)


def test_the_standard_deviation_is_the_unbiased_one():
    # mean 1, squared deviations 1 + 0 + 1, divided by n - 1 = 2
    assert grpo([0.0, 1.0, 2.0], "mean_std") == pytest.approx(
        [-1 / (1 + 1e-6), 0.0, 1 / (1 + 1e-6)], abs=1e-12
    )


@pytest.mark.parametrize("compare", [grpo, lambda v: grpo(v, "mean"), rloo])
@pytest.mark.parametrize("values", [[], [3.0], [0.1, 0.1, 0.1], [0.7] * 7, [0.0, -0.0]])
def test_one_member_or_equal_rewards_give_exactly_zero(compare, values):
    assert all(a == 0.0 for a in compare(values))
    assert len(compare(values)) == len(values)


def test_an_unknown_norm_is_refused_by_name():
    with pytest.raises(ValueError, match="'max': mean or mean_std"):
        grpo([1.0, 2.0], "max")


def test_entries_are_compared_with_those_of_the_same_index_only():
    assert compare_by_index([[1.0, 10.0], [3.0, 30.0], [5.0]], lambda v: grpo(v, "mean")) == [
        [-2.0, -10.0],
        [0.0, 10.0],
        [2.0],
    ]


def test_an_index_reached_by_one_row_gets_zero_or_the_pooled_comparison():
    rows = [[1.0, 8.0], [3.0]]
    centre = lambda v: grpo(v, "mean")  # noqa: E731
    assert compare_by_index(rows, centre) == [[-1.0, 0.0], [1.0]]
    assert compare_by_index(rows, centre, pooled_fallback=True) == [[-1.0, 4.0], [1.0]]


def test_with_a_trial_baseline_every_row_of_a_trial_has_the_same_advantage():
    group = [trial([0.0, 0.0], [10.0]), trial([0.0], [0.0, 0.0], [0.0])]
    won, lost = assign(group, Credit(estimator="grpo", baseline="trial", gamma_traj=0.5, gamma_step=1.0))
    assert won.act == ((2.5, 2.5), (2.5,))
    assert won.reflect == (2.5,)
    assert set(lost.rows()) == {-2.5}


def test_with_an_episode_baseline_a_reflection_gets_the_advantage_of_the_next_episode():
    group = [trial([0.0], [10.0]), trial([0.0], [4.0])]
    first, second = assign(
        group, Credit(estimator="rloo", baseline="episode", gamma_traj=0.5, gamma_step=1.0)
    )
    assert first.act == ((3.0,), (6.0,))
    assert first.reflect == (6.0,)
    assert second.reflect == (-6.0,)


@pytest.mark.parametrize("estimator", ["grpo", "rloo"])
@pytest.mark.parametrize("baseline", ["trial", "episode"])
def test_the_cross_episode_return_reaches_the_first_episode(estimator, baseline):
    group = [trial([0.0, 0.0], [10.0]), trial([0.0, 0.0], [0.0])]
    on = assign(group, Credit(estimator=estimator, baseline=baseline, gamma_traj=0.6))
    off = assign(group, Credit(estimator=estimator, baseline=baseline, gamma_traj=0.0))
    assert on[0].act[0][0] > 0
    assert off[0].act[0][0] == 0


@pytest.mark.parametrize("estimator", ["grpo", "rloo"])
@pytest.mark.parametrize("bad", [None, math.nan, math.inf, -math.inf])
def test_a_failed_or_non_finite_reward_removes_its_trial_from_everyones_baseline(estimator, bad):
    good = [trial([0.0], [10.0]), trial([1.0])]
    credit = Credit(estimator=estimator, baseline="episode")
    with_bad = assign([good[0], trial([5.0], [bad]), good[1]], credit)
    assert with_bad[1] is None
    assert [with_bad[0], with_bad[2]] == assign(good, credit)


@pytest.mark.parametrize("estimator", ["grpo", "rloo"])
def test_a_reward_of_zero_is_a_score(estimator):
    alone = assign([trial([1.0])], Credit(estimator=estimator))
    beside_zero = assign([trial([1.0]), trial([0.0])], Credit(estimator=estimator))
    assert alone[0].act == ((0.0,),)
    assert beside_zero[0].act[0][0] > 0


def test_a_trial_marked_failed_is_nobodys_peer_whatever_its_rewards():
    credit = Credit(estimator="grpo")
    got = assign([trial([1.0]), trial([9.0], valid=False), trial([3.0])], credit)
    assert got == [
        assign([trial([1.0]), trial([3.0])], credit)[0],
        None,
        assign([trial([1.0]), trial([3.0])], credit)[1],
    ]


@pytest.mark.parametrize("estimator", ["grpo", "rloo", "gigpo"])
def test_a_group_without_a_usable_trial_gives_no_rows(estimator):
    failed = TrialRewards((), valid=False)
    assert assign([failed, trial([None])], Credit(estimator=estimator)) == [None, None]
    assert assign([], Credit(estimator=estimator)) == []


def test_more_reflections_than_gaps_between_episodes_are_refused():
    with pytest.raises(ValueError, match="2 reflections do not fit between 2 episodes"):
        trial([0.0], [1.0], reflections=2)


def test_a_long_trial_weighs_no_more_than_a_short_one():
    short = assign([trial([1.0]), trial([0.0])], Credit(estimator="grpo", gamma_step=1.0))
    long = assign([trial([0.0] * 9 + [1.0]), trial([0.0])], Credit(estimator="grpo", gamma_step=1.0))
    assert long[0].act[0][0] == short[0].act[0][0]
    assert long[1] == short[1]

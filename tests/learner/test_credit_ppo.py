"""GAE within an episode and LaMer's credit across them."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.credit.assign import Credit, assign
from learner.credit.gae import explained_variance, gae, ppo_trial
from learner.credit.returns import discounted, trial_returns
from learner.credit.trial import EpisodeRewards, TrialRewards

fast = settings(deadline=None, max_examples=80)
pairs = st.lists(st.tuples(st.floats(-10, 10), st.floats(-3, 3)), min_size=1, max_size=8)
discounts = st.floats(0, 1)


def trial(*episodes, valid=True):
    return TrialRewards(tuple(EpisodeRewards(tuple(e)) for e in episodes), len(episodes) - 1, valid)


@fast
@given(pairs, discounts)
def test_with_lambda_one_an_advantage_is_the_return_minus_the_value(drawn, gamma):
    rewards, values = [r for r, _ in drawn], [v for _, v in drawn]
    got = gae(rewards, values, gamma=gamma, lam=1.0)
    assert got == pytest.approx(
        [g - v for g, v in zip(discounted(rewards, gamma), values, strict=True)], abs=1e-9
    )


@fast
@given(pairs, discounts)
def test_with_lambda_zero_an_advantage_is_the_one_step_error(drawn, gamma):
    rewards, values = [r for r, _ in drawn], [v for _, v in drawn]
    following = [*values[1:], 0.0]
    expected = [r + gamma * v1 - v for r, v, v1 in zip(rewards, values, following, strict=True)]
    assert gae(rewards, values, gamma=gamma, lam=0.0) == pytest.approx(expected, abs=1e-9)


@fast
@given(st.lists(pairs, min_size=1, max_size=3), discounts, discounts, st.sampled_from(["paper", "chained"]))
def test_later_episodes_add_one_constant_to_a_whole_episode_and_to_its_targets(drawn, lam, traj, form):
    rewards = [[r for r, _ in e] for e in drawn]
    values = [[v for _, v in e] for e in drawn]
    options = {"gamma_step": 0.9, "lam": lam, "return_form": form}
    alone, alone_targets = ppo_trial(rewards, values, gamma_traj=0.0, **options)
    carried, targets = ppo_trial(rewards, values, gamma_traj=traj, **options)
    returns = trial_returns(rewards, gamma_step=0.9, gamma_traj=traj, form=form)
    for n in range(len(rewards)):
        later = traj * returns.start[n + 1] if n + 1 < len(rewards) else 0.0
        assert carried[n] == pytest.approx([a + later for a in alone[n]], abs=1e-9)
        assert targets[n] == pytest.approx([a + later for a in alone_targets[n]], abs=1e-9)


def test_a_reflection_has_no_value_and_is_compared_within_the_group():
    group = [trial([0.0], [10.0]), trial([0.0], [4.0])]
    values = [[[0.3], [0.1]], [[0.2], [0.5]]]
    got = assign(group, Credit(estimator="ppo", gamma_step=1.0, gamma_traj=0.5), values)
    assert [one.reflect for one in got] == [(3.0,), (-3.0,)]
    assert got[0].act[0][0] == pytest.approx(0.0 - 0.3 + 5.0)
    assert got[0].value_targets == ((5.0,), (10.0,))


def test_a_failed_trial_needs_no_values_and_is_nobodys_peer():
    good = [trial([0.0], [10.0]), trial([0.0], [4.0])]
    values = [[[0.3], [0.1]], [[0.2], [0.5]]]
    credit = Credit(estimator="ppo")
    got = assign([*good, trial([1.0], [None])], credit, [*values, None])
    assert got == [*assign(good, credit, values), None]
    assert assign([trial([math.nan])], credit, [[[0.0]]]) == [None]


def test_a_group_of_one_still_learns_from_its_values():
    got = assign([trial([1.0])], Credit(estimator="ppo"), [[[0.25]]])
    assert got[0].act == ((0.75,),)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (None, "needs the value head"),
        ([None], "trial 0 is usable but has no values"),
        ([], "values of 0 trials for a group of 1"),
        ([[[0.0]]], "values of 1 episodes for 2 episodes"),
        ([[[0.0], [0.0, 0.0]]], "2 values for 1 rewards"),
    ],
)
def test_values_that_do_not_fit_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        assign([trial([1.0], [2.0])], Credit(estimator="ppo"), values)


@fast
@given(st.lists(st.floats(-10, 10), min_size=2, max_size=8), st.floats(-5, 5))
def test_perfect_values_explain_everything_and_a_constant_nothing(rewards, constant):
    credit = Credit(estimator="ppo", lam=1.0, gamma_step=1.0)
    group = [trial([r]) for r in rewards]
    explained = explained_variance(assign(group, credit, [[[r]] for r in rewards]))
    of_a_constant = explained_variance(assign(group, credit, [[[constant]] for _ in rewards]))
    if max(rewards) - min(rewards) < 1e-6:
        return
    assert explained == pytest.approx(1.0)
    assert of_a_constant == pytest.approx(0.0, abs=1e-5)


def test_without_targets_that_differ_nothing_can_be_explained():
    credit = Credit(estimator="ppo")
    assert explained_variance(assign([trial([1.0])], credit, [[[0.5]]])) is None
    assert explained_variance(assign([trial([1.0]), trial([1.0])], credit, [[[0.5]], [[0.1]]])) is None
    assert explained_variance(assign([trial([1.0]), trial([0.0])], Credit(estimator="grpo"))) is None
    assert explained_variance([None]) is None

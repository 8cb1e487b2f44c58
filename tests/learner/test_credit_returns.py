"""Returns across episodes, against the definitions written out."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.credit.returns import trial_returns

rewards = st.floats(-10, 10, allow_nan=False)
trials = st.lists(st.lists(rewards, max_size=6), min_size=1, max_size=4)
discounts = st.floats(0, 1)
fast = settings(deadline=None, max_examples=80)


def test_the_two_forms_differ_as_published_for_a_win_in_the_third_episode():
    episodes = [[0.0] * 7, [0.0] * 7, [0.0] * 4 + [10.0]]
    paper = trial_returns(episodes, gamma_step=0.95, gamma_traj=0.6, form="paper")
    chained = trial_returns(episodes, gamma_step=0.95, gamma_traj=0.6, form="chained")
    assert paper.act[0][0] == pytest.approx(2.932, abs=5e-4)
    assert chained.act[0][0] == pytest.approx(1.584, abs=5e-4)


@fast
@given(trials, discounts, discounts)
def test_the_paper_form_is_the_discounted_episode_plus_the_discounted_later_episodes(episodes, step, traj):
    def g(n, t):
        return sum(step ** (later - t) * episodes[n][later] for later in range(t, len(episodes[n])))

    got = trial_returns(episodes, gamma_step=step, gamma_traj=traj, form="paper")
    for n, episode in enumerate(episodes):
        later_episodes = sum(traj ** (m - n) * g(m, 0) for m in range(n + 1, len(episodes)))
        assert got.carried[n] == pytest.approx(later_episodes, abs=1e-9)
        for t in range(len(episode)):
            assert got.act[n][t] == pytest.approx(g(n, t) + later_episodes, abs=1e-9)


@fast
@given(trials, discounts, discounts)
def test_the_chained_form_discounts_a_later_reward_by_every_turn_and_border_between(episodes, step, traj):
    got = trial_returns(episodes, gamma_step=step, gamma_traj=traj, form="chained")
    for n, episode in enumerate(episodes):
        for t in range(len(episode)):
            expected, weight = 0.0, 1.0
            for m in range(n, len(episodes)):
                first = t if m == n else 0
                for later in range(first, len(episodes[m])):
                    expected += weight * episodes[m][later]
                    weight *= traj if later == len(episodes[m]) - 1 else step
                if not episodes[m]:
                    weight *= traj
            assert got.act[n][t] == pytest.approx(expected, abs=1e-9)


@fast
@given(st.lists(rewards, min_size=1, max_size=8), discounts, discounts)
def test_both_forms_agree_on_a_single_episode(episode, step, traj):
    paper = trial_returns([episode], gamma_step=step, gamma_traj=traj, form="paper")
    chained = trial_returns([episode], gamma_step=step, gamma_traj=traj, form="chained")
    assert paper.act[0] == pytest.approx(chained.act[0])
    assert paper.reflect == chained.reflect == []


@pytest.mark.parametrize("form", ["paper", "chained"])
def test_a_reflection_is_credited_with_the_episode_that_it_prepares(form):
    got = trial_returns([[0.0, 1.0], [2.0, 3.0], [4.0]], gamma_step=0.5, gamma_traj=0.5, form=form)
    assert got.reflect == [got.act[1][0], got.act[2][0]]


@pytest.mark.parametrize("form", ["paper", "chained"])
def test_an_episode_without_turns_passes_its_successors_return_on(form):
    got = trial_returns([[1.0], [], [8.0]], gamma_step=0.9, gamma_traj=0.5, form=form)
    assert got.act == [[3.0], [], [8.0]]
    assert got.start == [3.0, 4.0, 8.0]


def test_without_a_trajectory_discount_each_episode_stands_alone():
    got = trial_returns([[1.0, 2.0], [5.0]], gamma_step=1.0, gamma_traj=0.0)
    assert got.act == [[3.0, 2.0], [5.0]]


def test_a_trial_of_one_long_episode_does_not_lose_precision():
    got = trial_returns([[0.0] * 500 + [10.0]], gamma_step=0.95, gamma_traj=0.6)
    assert got.act[0][0] == pytest.approx(10 * math.pow(0.95, 500), rel=1e-9)


def test_an_unknown_form_is_refused_by_name():
    with pytest.raises(ValueError, match="'telescoped': paper or chained"):
        trial_returns([[1.0]], gamma_step=1.0, gamma_traj=1.0, form="telescoped")

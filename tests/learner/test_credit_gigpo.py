"""GiGPO: its two terms, their peers and their fall-backs."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.credit.assign import Credit, assign
from learner.credit.gigpo import gigpo
from learner.credit.trial import EpisodeRewards, TrialRewards

fast = settings(deadline=None, max_examples=80)
plain = {"gamma_step": 1.0, "gamma_traj": 0.5}

turn = st.tuples(st.sampled_from("abc"), st.floats(-10, 10, allow_nan=False))
episodes = st.lists(st.lists(turn, min_size=1, max_size=4), min_size=1, max_size=3)
groups = st.lists(episodes, min_size=1, max_size=5)


def trial(*played, reflections=None):
    """A trial from episodes of (observation, reward) pairs."""
    count = len(played) - 1 if reflections is None else reflections
    return TrialRewards(
        tuple(EpisodeRewards(tuple(r for _, r in e), tuple(o for o, _ in e)) for e in played), count
    )


def group_of(drawn):
    return [trial(*played) for played in drawn]


@fast
@given(groups)
def test_with_means_the_step_terms_of_the_whole_group_sum_to_zero(drawn):
    group = group_of(drawn)
    without = gigpo(group, **plain, omega=0.0)
    with_step = gigpo(group, **plain, omega=1.0)
    step_terms = [
        a - b
        for one, other in zip(with_step, without, strict=True)
        for x, y in zip(one.act, other.act, strict=True)
        for a, b in zip(x, y, strict=True)
    ]
    assert sum(step_terms) == pytest.approx(0, abs=1e-8)


@fast
@given(groups, st.sampled_from(["mean", "mean_std"]), st.sampled_from(["trial", "episode"]))
def test_every_turn_gets_one_finite_advantage(drawn, norm, scope):
    group = group_of(drawn)
    for one, got in zip(group, gigpo(group, **plain, norm=norm, anchor_scope=scope), strict=True):
        assert [len(e.rewards) for e in one.episodes] == [len(e) for e in got.act]
        assert len(got.reflect) == one.reflections
        assert all(math.isfinite(a) for a in got.rows())


@fast
@given(groups, st.randoms())
def test_the_order_of_the_trials_does_not_matter(drawn, random):
    group = group_of(drawn)
    order = list(range(len(group)))
    random.shuffle(order)
    straight = gigpo(group, **plain)
    shuffled = gigpo([group[i] for i in order], **plain)
    for place, i in enumerate(order):
        assert list(shuffled[place].rows()) == pytest.approx(list(straight[i].rows()), abs=1e-9)


def test_the_same_observation_is_a_peer_in_any_episode_or_only_at_the_same_index():
    group = [trial([("s", 0.0)], [("s", 4.0)]), trial([("s", 0.0)], [("t", 0.0)])]
    # Returns: 2 then 4; 0 then 0. Episode term: +1, -1 in the first, +2, -2 in the second.
    anywhere = gigpo(group, **plain, anchor_scope="trial")
    same_index = gigpo(group, **plain, anchor_scope="episode")
    assert anywhere[0].act == ((1.0 + 0.0,), (2.0 + 2.0,))
    assert anywhere[1].act == ((-1.0 - 2.0,), (-2.0,))
    assert same_index[0].act == ((1.0 + 1.0,), (2.0,))
    assert same_index[1].act == ((-1.0 - 1.0,), (-2.0,))


def test_an_observation_seen_once_has_no_step_term():
    group = [trial([("x", 1.0)]), trial([("y", 0.0)])]
    assert gigpo(group, **plain) == gigpo(group, **plain, omega=0.0)


def test_an_episode_index_with_one_member_is_compared_with_all_episodes_of_the_group():
    group = [trial([("a", 0.0)], [("b", 6.0)]), trial([("c", 3.0)])]
    # Returns 3 and 6 against 3: the pooled mean is 4.
    got = gigpo(group, **plain)
    assert got[0].act == ((0.0,), (2.0,))
    assert got[1].act == ((0.0,),)


def test_a_lone_trial_of_one_episode_gets_zero():
    assert gigpo([trial([("a", 10.0), ("b", 0.0)])], **plain, norm="mean_std")[0].act == ((0.0, 0.0),)


def test_reflections_are_compared_with_reflections_only():
    win_after, lose_after = [("a", 0.0)], [("b", 10.0)]
    group = [trial(win_after, lose_after), trial([("a", 0.0)], [("b", 10.0)])]
    # Both reflections led to the same return: neither is better, however much the actions' returns differ.
    assert [one.reflect for one in gigpo(group, **plain)] == [(0.0,), (0.0,)]


def test_a_reflection_with_a_peer_gets_its_group_term_once_more_times_omega():
    group = [trial([("a", 0.0)], [("b", 10.0)]), trial([("a", 0.0)], [("b", 0.0)])]
    assert gigpo(group, **plain, omega=0.5)[0].reflect == (1.5 * 5.0,)


def test_a_reflection_without_a_peer_falls_back_in_its_group_term_only():
    group = [
        trial([("a", 0.0)], [("b", 0.0)], [("c", 8.0)]),
        trial([("a", 0.0)], [("b", 0.0)]),
    ]
    # Reflection returns: 4 (index 0), 8 (index 1) and 0 (index 0); pooled mean 4.
    assert gigpo(group, **plain, omega=1.0)[0].reflect == (2.0 * 2.0, 4.0)


def test_without_reflections_the_act_rows_keep_their_advantages():
    with_notes = [trial([("a", 0.0)], [("b", 10.0)]), trial([("a", 0.0)], [("b", 0.0)])]
    without = [
        trial([("a", 0.0)], [("b", 10.0)], reflections=0),
        trial([("a", 0.0)], [("b", 0.0)], reflections=0),
    ]
    assert [one.act for one in gigpo(without, **plain)] == [one.act for one in gigpo(with_notes, **plain)]
    assert all(one.reflect == () for one in gigpo(without, **plain))


@pytest.mark.parametrize("bad", [None, math.nan])
def test_a_failed_trial_is_no_anchor(bad):
    good = [trial([("s", 1.0)]), trial([("s", 3.0)])]
    got = gigpo([*good, trial([("s", 100.0), ("s", bad)])], **plain)
    assert got == [*gigpo(good, **plain), None]


def test_equal_rewards_give_exactly_zero_everywhere():
    group = [trial([("s", 0.1), ("t", 0.1)], [("s", 0.1)]) for _ in range(7)]
    for norm in ("mean", "mean_std"):
        rows = [a for one in gigpo(group, **plain, norm=norm, anchor_scope="episode") for a in one.rows()]
        assert set(rows) == {0.0}


def test_missing_observations_are_refused_with_their_place():
    group = [TrialRewards((EpisodeRewards((1.0, 2.0), ("only one",)),))]
    with pytest.raises(ValueError, match="trial 0, episode 0: 1 observations for 2 rewards"):
        gigpo(group, **plain)


def test_an_unknown_scope_is_refused_by_name():
    with pytest.raises(ValueError, match="'board': trial or episode"):
        gigpo([], **plain, anchor_scope="board")


def test_the_default_credit_is_gigpo_with_the_papers_constants():
    credit = Credit()
    group = [trial([("a", 0.0)], [("b", 10.0)]), trial([("a", 0.0)], [("b", 0.0)])]
    assert assign(group, credit) == gigpo(group, gamma_step=0.95, gamma_traj=0.6)

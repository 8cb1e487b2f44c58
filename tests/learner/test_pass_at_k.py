"""Success within k episodes and its interval."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.evaluation.pass_at_k import pass_at_k, wilson

fast = settings(deadline=None, max_examples=80)
trials = st.lists(st.lists(st.booleans(), max_size=4), min_size=1, max_size=20)


@fast
@given(trials)
def test_more_episodes_never_solve_less(successes):
    values = [share.value for share in pass_at_k(successes)]
    assert values == sorted(values)
    assert values[-1] == sum(any(trial) for trial in successes) / len(successes)


def test_a_trial_that_ended_early_counts_for_every_later_k():
    assert [share.value for share in pass_at_k([[True], [False, True], [False, False, False]], k_max=3)] == [
        1 / 3,
        2 / 3,
        2 / 3,
    ]


def test_a_failed_trial_is_neither_a_success_nor_a_failure():
    shares = pass_at_k([[True], None, [False]])
    assert (shares[0].value, shares[0].n) == (0.5, 2)


def test_a_trial_without_episodes_that_did_not_fail_is_unsolved():
    assert pass_at_k([[], [True]])[0].value == 0.5


@fast
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_share_and_stays_within_zero_and_one(drawn):
    successes, n = drawn
    share = wilson(successes, n)
    assert 0.0 <= share.low <= share.value <= share.high <= 1.0
    assert share.low < share.high
    mirrored = wilson(n - successes, n)
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - share.high, 1 - share.low))


def test_the_interval_has_the_textbook_bounds():
    share = wilson(8, 10)
    assert (share.low, share.high) == pytest.approx((0.4902, 0.9433), abs=5e-5)
    assert (wilson(0, 20).low, wilson(20, 20).high) == (0.0, 1.0)


def test_more_trials_narrow_the_interval():
    few, many = wilson(5, 10), wilson(256, 512)
    assert many.high - many.low < (few.high - few.low) / 5


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (3, 2), (-1, 2)])
def test_counts_that_give_no_share_are_refused(successes, n):
    with pytest.raises(ValueError, match=f"{successes} successes of {n} trials"):
        wilson(successes, n)


def test_without_a_finished_trial_there_is_nothing_to_report():
    with pytest.raises(ValueError, match="none of 2 trials finished"):
        pass_at_k([None, None])
    with pytest.raises(ValueError, match="k_max is 0"):
        pass_at_k([[True]], k_max=0)

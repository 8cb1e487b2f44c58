"""The dispatcher's options, and what a whole batch does to its advantages."""

import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.credit.assign import Credit
from learner.credit.scaling import divide_by_rms, rms, trainable_rows
from learner.credit.trial import TrialAdvantages

fast = settings(deadline=None, max_examples=80)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "reinforce"}, "estimator is 'reinforce': one of gigpo, grpo, rloo, ppo"),
        ({"norm": "std"}, "norm is 'std': one of mean, mean_std"),
        ({"baseline": "turn"}, "baseline is 'turn'"),
        ({"anchor_scope": "task"}, "anchor_scope is 'task'"),
        ({"return_form": "sum"}, "return_form is 'sum'"),
        ({"gamma_traj": 1.5}, "gamma_traj is 1.5: a discount lies in"),
        ({"gamma_step": math.nan}, "gamma_step is nan"),
    ],
)
def test_an_option_that_means_nothing_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        Credit(**options)


@fast
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30).filter(lambda v: any(abs(x) > 1e-3 for x in v))
)
def test_after_scaling_the_batch_has_a_root_mean_square_of_one(values):
    half = len(values) // 2
    batch = [TrialAdvantages(act=(tuple(values[:half]),), reflect=tuple(values[half:])), None]
    scaled, scale = divide_by_rms(batch)
    assert rms(scaled[0].rows()) == pytest.approx(1)
    assert [a * scale for a in scaled[0].rows()] == pytest.approx(values)
    assert scaled[1] is None


def test_scaling_leaves_value_targets_in_the_unit_of_returns():
    scaled, scale = divide_by_rms([TrialAdvantages(act=((4.0,),), reflect=(), value_targets=((7.0,),))])
    assert scale == 4.0
    assert scaled == [TrialAdvantages(act=((1.0,),), reflect=(), value_targets=((7.0,),))]


def test_a_batch_without_signal_is_not_divided_by_zero():
    batch = [TrialAdvantages(act=((0.0, 0.0),), reflect=(0.0,)), None]
    assert divide_by_rms(batch) == (batch, 0.0)
    assert divide_by_rms([]) == ([], 0.0)
    assert divide_by_rms([None]) == ([None], 0.0)


def test_a_non_finite_value_does_not_spoil_the_scale_of_the_others():
    assert rms([3.0, math.nan, -3.0, math.inf]) == 3.0


def test_only_rows_with_a_finite_advantage_beyond_the_tolerance_are_trained():
    rows = [0.0, -0.5, math.nan, 1e-9, -0.0, 2.0]
    assert trainable_rows(rows) == [1, 3, 5]
    assert trainable_rows(rows, tolerance=1e-6) == [1, 5]
    assert trainable_rows([]) == []


def test_credit_needs_neither_torch_nor_any_service():
    code = (
        "import sys, learner.credit.assign, learner.credit.scaling, learner.credit.decision_content\n"
        "heavy = 'torch', 'ray', 'vllm', 'deepspeed', 'redis', 'agentmem.trajectory'\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

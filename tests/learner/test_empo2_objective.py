"""EMPO²'s off-policy update: which log-prob is old, and which tokens keep their advantage."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.objectives.empo2 import (
    DEFAULT_DELTA,
    empo2_surrogate,
    masked_count,
    old_logprob,
    stabilising_mask,
)

NAN = float("nan")


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def everything(like):
    return torch.ones_like(like, dtype=torch.bool)


def test_the_default_threshold_keeps_five_nats():
    logp = tensor([-4.999, -5.001])
    assert stabilising_mask(logp, everything(logp)).tolist() == [True, False]
    assert pytest.approx(0.0067, abs=5e-5) == DEFAULT_DELTA


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-12, 0), min_size=1, max_size=12), st.integers(1, 4))
def test_with_turn_scope_a_turn_is_kept_whole_or_not_at_all(values, turn_length):
    logp = tensor(values)
    turn = torch.arange(len(values)) // turn_length
    kept = stabilising_mask(logp, everything(logp), scope="turn", turn=turn)
    token_kept = stabilising_mask(logp, everything(logp))
    for number in turn.unique():
        whole = token_kept[turn == number].all()
        assert (kept[turn == number] == whole).all()


def test_a_token_outside_the_mask_spoils_no_turn():
    logp = tensor([-1.0, NAN, -9.0, -1.0])
    mask = torch.tensor([True, False, False, True])
    turn = torch.tensor([0, -1, 0, 1])
    assert stabilising_mask(logp, mask, scope="turn", turn=turn).tolist() == [True, False, False, True]
    assert stabilising_mask(logp, mask, scope="token").tolist() == [True, False, False, True]


def test_a_threshold_of_zero_keeps_every_trained_token():
    logp = tensor([-700.0, -1.0])
    assert stabilising_mask(logp, everything(logp), delta=0.0).tolist() == [True, True]


def test_a_masked_token_has_no_gradient_and_the_others_keep_theirs():
    new = tensor([-1.0, -8.0]).requires_grad_()
    mask = everything(new)
    kept = stabilising_mask(new, mask)
    empo2_surrogate(new, new.detach(), tensor([2.0, 2.0]), mask, kept).sum().backward()
    assert new.grad.tolist() == [2.0, 0.0]
    assert masked_count(mask, kept).item() == 1


def test_the_old_log_prob_is_the_behaviours_or_the_students():
    behaviour, student = tensor([-1.0]), tensor([-2.0])
    assert old_logprob("behaviour", behaviour, None) is behaviour
    assert old_logprob("student", behaviour, student) is student


def test_the_behaviour_ratio_also_carries_the_effect_of_the_tips():
    student = tensor([-2.0])
    with_tips, without = tensor([-1.0]), tensor([-2.0])
    mask = everything(student)
    kept = stabilising_mask(student, mask)
    assert empo2_surrogate(student, without, tensor([1.0]), mask, kept).item() == 1.0
    assert empo2_surrogate(student, with_tips, tensor([1.0]), mask, kept).item() == pytest.approx(
        math.exp(-1)
    )


def test_an_empty_batch_masks_nothing():
    empty, none = torch.zeros(0), torch.zeros(0, dtype=torch.bool)
    turn = torch.zeros(0, dtype=torch.long)
    assert stabilising_mask(empty, none, scope="turn", turn=turn).shape == (0,)
    assert masked_count(none, none).item() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scope": "row"}, "'row': token or turn"),
        ({"scope": "turn"}, "needs the turn number"),
        ({"delta": 1.0}, "delta is 1.0"),
        ({"delta": -0.1}, "delta is -0.1"),
    ],
)
def test_mask_options_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        stabilising_mask(tensor([0.0]), torch.tensor([True]), **options)


@pytest.mark.parametrize(
    ("source", "message"), [("student", "on the student prompt"), ("teacher", "'teacher'")]
)
def test_an_old_log_prob_that_is_not_there_is_refused(source, message):
    with pytest.raises(ValueError, match=message):
        old_logprob(source, tensor([0.0]), None)

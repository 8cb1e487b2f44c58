"""The clipped surrogate, the importance weights, and what a mask must keep out."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.objectives.normalise import Counts
from learner.objectives.policy import clipped_surrogate, importance_weights, policy_loss, policy_sums

fast = settings(deadline=None, max_examples=60)
NAN = float("nan")


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def everything(like):
    return torch.ones_like(like, dtype=torch.bool)


logps = st.lists(st.floats(-8, 0), min_size=1, max_size=10)


@fast
@given(logps, st.data())
def test_on_policy_the_gradient_is_the_plain_policy_gradient(values, data):
    advantages = tensor(data.draw(st.lists(st.floats(-3, 3), min_size=len(values), max_size=len(values))))
    new = tensor(values).requires_grad_()
    policy_loss(new, new.detach(), advantages, everything(new), Counts(len(values))).backward()
    assert torch.allclose(new.grad, -advantages / len(values))


def test_the_old_policy_is_a_constant_even_when_it_is_the_same_tensor():
    new = tensor([-1.0, -2.0]).requires_grad_()
    policy_loss(new, new, tensor([1.0, -3.0]), everything(new), Counts(2)).backward()
    assert new.grad.tolist() == [-0.5, 1.5]


@pytest.mark.parametrize(
    ("ratio", "advantage", "clipped"),
    [(1.5, 1.0, True), (1.5, -1.0, False), (0.5, 1.0, False), (0.5, -1.0, True), (1.1, 1.0, False)],
)
def test_the_clip_stops_the_gradient_only_where_the_ratio_already_went_the_right_way(
    ratio, advantage, clipped
):
    new = tensor([math.log(ratio)]).requires_grad_()
    old, a = tensor([0.0]), tensor([advantage])
    surrogate = clipped_surrogate(new, old, a, everything(new))
    surrogate.sum().backward()
    assert (new.grad.item() == 0.0) is clipped
    assert policy_sums(new, old, a, everything(new)).clipped.item() == int(clipped)


def test_clip_bounds_may_differ_above_and_below():
    new, old = tensor([1.0, -1.0]), tensor([0.0, 0.0])
    got = clipped_surrogate(new, old, tensor([1.0, -1.0]), everything(new), clip_low=0.1, clip_high=0.3)
    assert got.tolist() == pytest.approx([1.3, -0.9])


def test_weights_above_the_cap_are_cut_or_dropped_or_never_taken():
    old, engine = (
        tensor([-1.0, -1.0, -1.0]),
        tensor([-1.0 - math.log(5), -1.0 - math.log(2), -1.0 + math.log(4)]),
    )
    mask = everything(old)
    assert importance_weights(old, engine, mask, mode="truncate").tolist() == pytest.approx([2.0, 2.0, 0.25])
    assert importance_weights(old, engine, mask, mode="mask", cap=2.1).tolist() == pytest.approx(
        [0.0, 2.0, 0.25]
    )
    assert importance_weights(old, engine, mask, mode="none").tolist() == [1.0, 1.0, 1.0]


def test_a_forced_token_has_weight_one_and_an_untrained_one_weight_zero():
    old, engine = tensor([-1.0, -1.0, NAN]), tensor([NAN, -1.0, NAN])
    mask = torch.tensor([True, True, False])
    for mode in ("truncate", "mask", "none"):
        assert importance_weights(old, engine, mask, mode=mode).tolist() == [1.0, 1.0, 0.0]


def test_weights_carry_no_gradient():
    new = tensor([-1.0]).requires_grad_()
    weights = importance_weights(new, tensor([-1.5]), everything(new))
    assert not weights.requires_grad
    policy_loss(new, new.detach(), tensor([1.0]), everything(new), Counts(1), weights=weights).backward()
    assert new.grad.item() == pytest.approx(-math.exp(0.5))


def test_with_the_engines_log_probs_as_old_the_weights_are_one():
    engine = tensor([-0.3, -2.0])
    assert importance_weights(engine, engine, everything(engine)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("junk", [NAN, math.inf, -math.inf])
def test_what_lies_outside_the_mask_reaches_neither_value_nor_gradient(junk):
    mask = torch.tensor([True, False])
    new = tensor([-1.0, junk]).requires_grad_()
    old, engine, a = tensor([-1.2, junk]), tensor([-1.1, junk]), tensor([0.7, junk])
    weights = importance_weights(old, engine, mask)
    loss = policy_loss(new, old, a, mask, Counts(1), weights=weights)
    loss.backward()
    clean = policy_loss(new[:1].detach(), old[:1], a[:1], mask[:1], Counts(1), weights=weights[:1])
    assert loss.item() == pytest.approx(clean.item())
    assert new.grad[1].item() == 0.0
    assert math.isfinite(new.grad[0].item())


@pytest.mark.parametrize("shape", [(0,), (3,), (2, 4), (0, 4)])
@pytest.mark.parametrize("count", [0, 5])
def test_a_fully_masked_batch_gives_a_zero_loss_that_can_be_differentiated(shape, count):
    new = torch.full(shape, NAN, requires_grad=True)
    mask = torch.zeros(shape, dtype=torch.bool)
    blank = torch.full(shape, NAN)
    loss = policy_loss(new, blank, blank, mask, Counts(count))
    loss.backward()
    assert loss.item() == 0.0
    assert torch.equal(new.grad, torch.zeros(shape))


def test_an_absurd_ratio_stays_finite_and_zero_advantage_stays_zero():
    new = torch.tensor([0.0, 0.0, -1e4], requires_grad=True)
    old = torch.tensor([-1e4, -1e4, 0.0])
    surrogate = clipped_surrogate(new, old, torch.tensor([-1.0, 0.0, 1.0]), everything(new))
    surrogate.sum().backward()
    assert torch.isfinite(surrogate).all()
    assert surrogate[1].item() == 0.0
    assert torch.isfinite(new.grad).all()


def test_half_precision_log_probs_are_computed_in_single_precision():
    new = torch.tensor([-1.0, -2.0], dtype=torch.bfloat16)
    loss = policy_loss(new, new, torch.tensor([1.0, 2.0]), everything(new), Counts(2))
    assert loss.dtype == torch.float32
    assert loss.item() == -1.5


def test_a_scalar_advantage_applies_to_every_token():
    new = tensor([[-1.0, -2.0], [-3.0, -4.0]])
    assert clipped_surrogate(new, new, tensor(2.0), everything(new)).tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_reports_count_trained_tokens_only():
    new, old = tensor([0.0, 0.0, NAN]), tensor([0.0, -math.log(3), NAN])
    sums = policy_sums(new, old, tensor([1.0, 1.0, NAN]), torch.tensor([True, True, False]))
    assert (sums.tokens.item(), sums.clipped.item()) == (2, 1)
    assert sums.ratio.item() == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"mode": "cut"}, "'cut': truncate, mask or none"), ({"cap": 0.0}, "weights is 0.0")],
)
def test_importance_options_that_mean_nothing_are_refused(options, message):
    one = tensor([0.0])
    with pytest.raises(ValueError, match=message):
        importance_weights(one, one, everything(one), **options)

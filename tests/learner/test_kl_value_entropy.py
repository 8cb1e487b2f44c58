"""The smaller terms of a loss."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.objectives.entropy import entropy, entropy_bonus
from learner.objectives.kl import k3, mismatch_sum
from learner.objectives.normalise import Counts
from learner.objectives.value import value_loss

fast = settings(deadline=None, max_examples=60)
NAN = float("nan")
ONE = torch.tensor([True])


@fast
@given(st.floats(-8, 0), st.floats(-8, 0))
def test_k3_is_its_formula(new, ref):
    value = k3(torch.tensor([new], dtype=torch.float64), torch.tensor([ref], dtype=torch.float64), ONE).item()
    assert value == pytest.approx(math.exp(ref - new) - (ref - new) - 1, abs=1e-9)


@fast
@given(st.floats(-8, 0), st.floats(-1, 1), st.integers(0, 7))
def test_k3_is_never_negative_however_near_the_policies_are(new, step, digits):
    ref = new + step * 10.0**-digits
    value = k3(torch.tensor([new]), torch.tensor([ref]), ONE).item()
    assert value >= 0.0
    assert k3(torch.tensor([new]), torch.tensor([new]), ONE).item() == 0.0


def test_k3_averages_to_the_kl_divergence_under_the_policys_own_samples():
    p = torch.softmax(torch.tensor([0.3, -1.0, 0.8, 0.0], dtype=torch.float64), 0)
    q = torch.softmax(torch.tensor([0.1, 0.4, -0.3, 0.2], dtype=torch.float64), 0)
    estimate = k3(p.log(), q.log(), torch.ones(4, dtype=torch.bool))
    assert (p * estimate).sum().item() == pytest.approx((p * (p / q).log()).sum().item())


def test_k3_pulls_towards_the_reference_and_never_moves_it():
    new = torch.tensor([-2.0, -0.5], requires_grad=True)
    ref = torch.tensor([-1.0, -1.0], requires_grad=True)
    k3(new, ref, torch.tensor([True, True])).sum().backward()
    assert new.grad[0] < 0 < new.grad[1]
    assert ref.grad is None


def test_k3_is_zero_outside_the_mask_and_finite_for_an_absurd_reference():
    new = torch.tensor([NAN, 0.0], requires_grad=True)
    got = k3(new, torch.tensor([NAN, 1e4]), torch.tensor([False, True]))
    got.sum().backward()
    assert got[0].item() == 0.0
    assert torch.isfinite(got).all()
    assert torch.isfinite(new.grad).all()


def test_the_mismatch_counts_sampled_tokens_only():
    engine, old = torch.tensor([-1.0, NAN, -3.0, NAN]), torch.tensor([-1.5, -9.0, -3.25, NAN])
    total, count = mismatch_sum(engine, old, torch.tensor([True, True, True, False]))
    assert (total.item(), count.item()) == (0.75, 2)


def test_the_plain_value_loss_is_half_the_mean_squared_error():
    values = torch.tensor([1.0, 2.0, NAN], requires_grad=True)
    loss = value_loss(values, torch.tensor([0.0, 4.0, NAN]), torch.tensor([True, True, False]), 2)
    loss.backward()
    assert loss.item() == pytest.approx((1 + 4) / 4)
    assert values.grad.tolist() == pytest.approx([0.5, -1.0, 0.0])


def test_a_clipped_value_has_no_gradient_once_it_moved_far_enough_towards_its_target():
    values = torch.tensor([1.0], requires_grad=True)
    loss = value_loss(values, torch.tensor([2.0]), ONE, 1, values_old=torch.tensor([0.0]), clip=0.2)
    loss.backward()
    assert loss.item() == pytest.approx(0.5 * (0.2 - 2.0) ** 2)
    assert values.grad.item() == 0.0


def test_clipping_values_needs_the_old_ones():
    with pytest.raises(ValueError, match="values at the start of the update"):
        value_loss(torch.zeros(1), torch.zeros(1), ONE, 1, clip=0.2)


def test_a_value_loss_without_any_value_is_zero():
    values = torch.full((3,), NAN, requires_grad=True)
    loss = value_loss(values, torch.full((3,), NAN), torch.zeros(3, dtype=torch.bool), 0)
    loss.backward()
    assert loss.item() == 0.0
    assert torch.equal(values.grad, torch.zeros(3))


def test_entropy_is_the_logarithm_of_the_number_of_equal_choices():
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [5.0, 5.0, -math.inf, -math.inf]])
    assert entropy(logits).tolist() == pytest.approx([math.log(4), math.log(2)])


def test_entropy_is_differentiable_where_a_token_cannot_occur():
    logits = torch.tensor([1.0, 0.0, -math.inf], requires_grad=True)
    entropy(logits).backward()
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0] < 0 < logits.grad[1]
    assert logits.grad[2].item() == 0.0


def test_the_entropy_bonus_lowers_the_loss_of_a_more_random_policy():
    mask = torch.tensor([True, False])
    calm = entropy_bonus(torch.tensor([0.1, NAN]), mask, Counts(1), coefficient=0.5)
    random = entropy_bonus(torch.tensor([2.0, NAN]), mask, Counts(1), coefficient=0.5)
    assert random.item() == pytest.approx(-1.0)
    assert random < calm

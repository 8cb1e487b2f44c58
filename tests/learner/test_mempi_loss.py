"""Mem-π's loss: two kinds of tokens, two normalisers."""

import pytest
import torch

from learner.objectives.mempi import mempi_loss

NAN = float("nan")


def branches(hint_tokens, advantage_abstain, advantage_generate):
    """A row that abstains and one with a hint; the first column is the decision."""
    width = 1 + hint_tokens
    new = torch.full((2, width), -1.0, dtype=torch.float64, requires_grad=True)
    advantage = torch.zeros(2, width, dtype=torch.float64)
    advantage[:, 0] = torch.tensor([advantage_abstain, advantage_generate])
    decision = torch.zeros(2, width, dtype=torch.bool)
    decision[:, 0] = True
    content = torch.zeros(2, width, dtype=torch.bool)
    content[1, 1:] = True
    return new, advantage, decision, content


@pytest.mark.parametrize("hint_tokens", [1, 10, 256])
def test_a_decision_is_as_easy_to_leave_as_to_enter_whatever_the_length_of_hints(hint_tokens):
    new, advantage, decision, content = branches(hint_tokens, -1.0, 1.0)
    mempi_loss(
        new, new.detach(), advantage, decision, content, decision_tokens=2, content_tokens=hint_tokens
    ).loss.backward()
    assert new.grad[0, 0].item() == pytest.approx(0.5)
    assert new.grad[1, 0].item() == pytest.approx(-0.5)


def test_content_is_averaged_over_content_tokens_alone():
    new, advantage, decision, content = branches(4, 0.0, 0.0)
    advantage[1, 1:] = 3.0
    terms = mempi_loss(new, new.detach(), advantage, decision, content, decision_tokens=2, content_tokens=4)
    terms.loss.backward()
    assert terms.content.item() == pytest.approx(-3.0)
    assert terms.decision.item() == 0.0
    assert new.grad[1, 1:].tolist() == pytest.approx([-0.75] * 4)


def test_the_terms_add_up_with_their_weights():
    new, advantage, decision, content = branches(3, 0.5, 1.5)
    advantage[1, 1:] = -2.0
    terms = mempi_loss(
        new,
        new.detach(),
        advantage,
        decision,
        content,
        decision_tokens=2,
        content_tokens=3,
        logp_ref=torch.full_like(new, -1.5).detach(),
        lambda_d=0.25,
        beta=0.1,
    )
    assert terms.kl.item() > 0
    expected = 0.25 * terms.decision + terms.content + 0.1 * terms.kl
    assert terms.loss.item() == pytest.approx(expected.item())


def test_micro_batches_add_up():
    new, advantage, decision, content = branches(5, -0.4, 0.9)
    options = {"decision_tokens": 2, "content_tokens": 5}
    whole = mempi_loss(new, new.detach(), advantage, decision, content, **options).loss
    parts = [
        mempi_loss(new[i], new[i].detach(), advantage[i], decision[i], content[i], **options).loss
        for i in (0, 1)
    ]
    assert sum(parts).item() == pytest.approx(whole.item())


def test_a_batch_of_abstentions_only_has_no_content_term_and_no_nan():
    new = torch.tensor([[-0.2, NAN]], requires_grad=True)
    decision, content = torch.tensor([[True, False]]), torch.tensor([[False, False]])
    advantage = torch.tensor([[1.0, NAN]])
    terms = mempi_loss(
        new,
        new.detach(),
        advantage,
        decision,
        content,
        decision_tokens=1,
        content_tokens=0,
        logp_ref=new.detach(),
    )
    terms.loss.backward()
    assert terms.content.item() == 0.0
    assert new.grad.tolist() == [[-1.0, 0.0]]


def test_a_token_of_both_kinds_is_refused():
    one, yes = torch.zeros(1), torch.tensor([True])
    with pytest.raises(ValueError, match="decision and content at once"):
        mempi_loss(one, one, one, yes, yes, decision_tokens=1, content_tokens=1)

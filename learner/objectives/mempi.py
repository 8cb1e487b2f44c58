"""Mem-π's loss: decision and content decoupled (arXiv 2605.21463).

    loss = λ_d · mean over decision tokens (clipped loss with A_d)
             +   mean over content tokens  (clipped loss with gate·A_c)
             + β · mean over all of them   (k3 to the Stage 1 policy)

There is one decision token per branch and up to L_max content tokens behind it, so each kind has a normaliser
of its own. A mean per sequence would give the lone decision token of an abstention far more weight than that
of a branch with a hint, and the policy would hardly ever leave abstention again.

Decision tokens are forced, so no engine log-prob exists: their old log-prob is the old policy's own forward
pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from learner.objectives.kl import k3
from learner.objectives.normalise import Counts, normalised_mean
from learner.objectives.policy import clipped_surrogate


@dataclass(frozen=True, slots=True)
class MempiTerms:
    """The summands of this call's share of the loss, each a scalar; `kl` is 0 without a reference."""

    loss: Tensor
    decision: Tensor
    content: Tensor
    kl: Tensor


def mempi_loss(
    logp_new: Tensor,
    logp_old: Tensor,
    advantage: Tensor,
    decision: Tensor,
    content: Tensor,
    *,
    decision_tokens: float,
    content_tokens: float,
    logp_ref: Tensor | None = None,
    lambda_d: float = 1.0,
    beta: float = 0.01,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    weights: Tensor | None = None,
) -> MempiTerms:
    """This call's share of the loss and its three terms.

    `advantage` holds A_d at the tokens of the mask `decision` and gate·A_c at those of `content` (a hint and
    its EOS; the EOS of an abstention belongs to neither or has advantage 0). `decision_tokens` and
    `content_tokens` count each kind in the whole update. `weights` are importance weights, 1 on decision
    tokens. Raises ValueError when one token is of both kinds.
    """
    if bool((decision & content).any()):
        raise ValueError("a token cannot be a decision and content at once")
    both = decision | content
    surrogate = clipped_surrogate(
        logp_new, logp_old, advantage, both, clip_low=clip_low, clip_high=clip_high, weights=weights
    )
    decision_loss = -normalised_mean(surrogate, decision, Counts(decision_tokens))
    content_loss = -normalised_mean(surrogate, content, Counts(content_tokens))
    loss = lambda_d * decision_loss + content_loss
    kl = loss.new_zeros(())
    if logp_ref is not None:
        kl = normalised_mean(k3(logp_new, logp_ref, both), both, Counts(decision_tokens + content_tokens))
        loss = loss + beta * kl
    return MempiTerms(loss=loss, decision=decision_loss, content=content_loss, kl=kl)

"""Mem-π's loss of one micro-batch, on rows of `advice_rows` and of `stage1`: a mean for each part.

    loss = λ_d · mean over decisions (clipped loss with A_d)
           + mean over content (clipped loss with gate · A_c)
           + β · mean over both (k3 to the model of the start)
           − c_H · mean over both (H)
           + c_x · mean over examples (−log π)                Stage 1, or the unified single stage

Means are over the whole mini-batch (all ranks, all micro-batches); what there is nothing of adds nothing.
Stage 1 is the case of examples alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from learner.loss import DeviceBatch, logprobs
from learner.objectives.entropy import entropy_bonus
from learner.objectives.kl import k3, mismatch_sum
from learner.objectives.mempi import mempi_loss
from learner.objectives.normalise import Counts, normalised_mean
from learner.objectives.policy import importance_weights, policy_sums
from learner.row import Part

if TYPE_CHECKING:
    from agentmem.chat.decision import DecisionTokens
    from agentmem.config.advice import AdviceConfig
    from agentmem.config.learning import ObjectiveConfig
    from learner.batching.tensors import MiniBatch

BINS = 10
"""Of the histogram of p(generate): [0, 0.1), [0.1, 0.2), …, [0.9, 1]."""

SUMS = (
    "tokens",
    "policy_loss",
    "entropy",
    "kl",
    "ratio",
    "clipped",
    "mismatch",
    "sampled",
    "masked",
    "decision_loss",
    "content_loss",
    "example_loss",
    "decisions",
    "examples",
    "generates",
    "p_generate",
    *(f"p_generate_{bin}" for bin in range(BINS)),
)
"""What `advice_share` adds up, in this order. Losses are shares of means; the others are sums over tokens."""


def advice_share(
    logits: Tensor,
    batch: DeviceBatch,
    mini: MiniBatch,
    cfg: ObjectiveConfig,
    advice: AdviceConfig,
    tokens: DecisionTokens,
) -> tuple[Tensor, Tensor]:
    """The loss (scalar) and the sums of `SUMS`, detached, float64.

    `batch.old` None means that nothing has been stepped yet: the log-probs of the update's start are the new
    ones, kept for later.
    """
    new, entropies = logprobs(logits, batch, entropy_grad=cfg.entropy_coef > 0)
    if batch.old is None:
        batch.old = new.detach()
    decision, content, example = (batch.part == part for part in (Part.DECISION, Part.CONTENT, Part.EXAMPLE))
    both = decision | content
    old = _old(batch, cfg)
    weights = importance_weights(
        old,
        batch.engine,
        both,
        mode=cfg.importance if cfg.old == "recompute" else "none",
        cap=cfg.importance_cap,
    )
    weights = torch.where(decision, 1.0, weights)
    counts = mini.parts
    terms = mempi_loss(
        new,
        old,
        batch.advantage,
        decision,
        content,
        decision_tokens=counts[Part.DECISION],
        content_tokens=counts[Part.CONTENT],
        logp_ref=batch.reference if advice.kl_coef > 0 else None,
        lambda_d=advice.decision_coef,
        beta=advice.kl_coef,
        clip_low=cfg.clip_low,
        clip_high=cfg.clip_high,
        weights=weights,
    )
    learnt = -normalised_mean(new, example, Counts(counts[Part.EXAMPLE]))
    loss = terms.loss + advice.distil_coef * learnt
    if cfg.entropy_coef > 0:
        whole = Counts(counts[Part.DECISION] + counts[Part.CONTENT])
        loss = loss + entropy_bonus(entropies, both, whole, coefficient=cfg.entropy_coef)
    if not batch.ways:
        loss = loss + 0.0 * logits.sum()
    with torch.no_grad():
        policy = advice.decision_coef * terms.decision + terms.content
        kl = k3(new, batch.reference, both).sum() if batch.reference is not None else new.new_zeros(())
        sums = policy_sums(new, old, batch.advantage, both, clip_low=cfg.clip_low, clip_high=cfg.clip_high)
        mismatch, sampled = mismatch_sum(batch.engine, old, content)
        report = torch.stack(
            [
                value.double()
                for value in (
                    sums.tokens,
                    policy,
                    entropies[both].sum(),
                    kl,
                    sums.ratio,
                    sums.clipped,
                    mismatch,
                    sampled,
                    (both & (weights == 0)).sum(),
                    terms.decision,
                    terms.content,
                    learnt,
                    decision.sum(),
                    example.sum(),
                    *p_generate(logits[decision], tokens, advice.threshold),
                )
            ]
        )
    return loss, report


def _old(batch: DeviceBatch, cfg: ObjectiveConfig) -> Tensor:
    """Old log-probs [N]: the engine's where the ratio is against the sampler (NaN on what none sampled), else
    those of the start."""
    assert batch.old is not None
    against_engine = torch.ones_like(batch.replayed) if cfg.old == "engine" else batch.replayed
    return torch.where(against_engine & ~torch.isnan(batch.engine), batch.engine, batch.old)


def p_generate(logits: Tensor, tokens: DecisionTokens, threshold: float) -> tuple[Tensor, ...]:
    """At decisions [D, V]: how many would generate at inference, the sum of p, and the counts of `BINS` bins.

    p = σ(logit_G − logit_A) is the probability of [GENERATE] between the two decisions alone.
    """
    gap = logits[:, tokens.generate].float() - logits[:, tokens.abstain].float()
    p = torch.sigmoid(gap)
    bins = torch.bincount((p * BINS).long().clamp(0, BINS - 1), minlength=BINS)
    return (gap > threshold).sum(), p.sum(), *bins.unbind()

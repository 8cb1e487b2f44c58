"""The loss of one micro-batch: this micro-batch's share of the mini-batch's mean over all ranks.

    loss = - mean(w · min(ρA, clip(ρ)A)) - c_H · mean(H) + c_KL · mean(k3) + c_V · mean(value loss)

Means are over the whole mini-batch (all ranks, all micro-batches), so shares add up; a micro-batch without
tokens has a loss of zero that is attached to the graph.

Tokens of EMPO²'s off-policy update were sampled for a prompt with tips and are trained on the one without
(objectives/empo2.py): their old log-prob is `off_policy_old`'s, w = 1, and the stabilising mask takes the
advantage term from the unlikely ones; they still count in every mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from agentmem.vision.sight import on_device
from learner.forward import Processing, logprobs_and_entropy
from learner.objectives.empo2 import stabilising_mask
from learner.objectives.entropy import entropy_bonus
from learner.objectives.kl import k3, mismatch_sum
from learner.objectives.masking import bounded
from learner.objectives.normalise import Counts, normalised_mean
from learner.objectives.policy import clipped_surrogate, importance_weights, policy_sums
from learner.objectives.value import value_loss

if TYPE_CHECKING:
    from agentmem.config.learning import ObjectiveConfig
    from learner.batching.tensors import MicroBatch, MiniBatch

SUMS = (
    "tokens",
    "policy_loss",
    "entropy",
    "kl",
    "value_loss",
    "ratio",
    "clipped",
    "mismatch",
    "sampled",
    "masked",
    "ratio_squared",
    "off_tokens",
    "off_ratio",
    "off_ratio_squared",
    "off_masked",
)
"""What `share` adds up, in this order. Losses are shares of means; the others are sums over tokens."""


@dataclass(slots=True)
class DeviceBatch:
    """A micro-batch as tensors on the rank's device; `old` [N] is filled before the first step."""

    ids: Tensor
    positions: Tensor | None
    index: Tensor
    targets: Tensor
    advantage: Tensor
    engine: Tensor
    replayed: Tensor
    off_policy: Tensor
    part: Tensor
    turn: Tensor
    unit_tokens: Tensor | None
    ways: tuple[tuple[Processing, int, int], ...]
    value_at: Tensor
    value_target: Tensor
    pictures: dict[str, Tensor] = field(default_factory=dict)
    """See `PolicyModel.forward`; empty without any."""
    old: Tensor | None = None
    reference: Tensor | None = None

    @classmethod
    def of(cls, micro: MicroBatch, device: torch.device, normalise: str) -> DeviceBatch:
        """Copy to the device."""

        def put(array: object) -> Tensor:
            # A copy: what comes out of the object store is read-only.
            return torch.tensor(array).to(device, non_blocking=True)

        unit = {"sequence": micro.row_tokens, "trial": micro.trial_tokens}.get(normalise)
        return cls(
            ids=put(micro.ids),
            positions=None if micro.positions is None else put(micro.positions),
            index=put(micro.index),
            targets=put(micro.targets),
            advantage=put(micro.advantage),
            engine=put(micro.engine),
            replayed=put(micro.replayed),
            off_policy=put(micro.off_policy),
            part=put(micro.part),
            turn=put(micro.turn),
            unit_tokens=None if unit is None else put(unit),
            ways=tuple((Processing.of(how), begin, end) for how, begin, end in micro.sampling),
            value_at=put(micro.value_at),
            value_target=put(micro.value_target),
            pictures={} if micro.pictures is None else on_device(micro.pictures, device),
        )


def logprobs(logits: Tensor, batch: DeviceBatch, *, entropy_grad: bool) -> tuple[Tensor, Tensor]:
    """Log-probs [N] of the targets, and entropies [N], each token as its turn was sampled."""
    if len(batch.ways) == 1:
        return logprobs_and_entropy(logits, batch.targets, batch.ways[0][0], entropy_grad=entropy_grad)
    if not batch.ways:
        empty = logits.float().sum(dim=-1)
        return empty, empty
    parts = [
        logprobs_and_entropy(logits[b:e], batch.targets[b:e], how, entropy_grad=entropy_grad)
        for how, b, e in batch.ways
    ]
    return torch.cat([p for p, _ in parts]), torch.cat([h for _, h in parts])


def _old(new: Tensor, batch: DeviceBatch, cfg: ObjectiveConfig) -> Tensor:
    """Old log-probs [N]: the engine's where the ratio is against the sampler, else those of the start.

    A forced token was never sampled: its own is that of the update's start.
    """
    assert batch.old is not None
    against_engine = batch.replayed & ~batch.off_policy
    if cfg.old == "engine":
        against_engine = ~batch.off_policy
    if cfg.off_policy_old == "behaviour":
        against_engine = against_engine | batch.off_policy
    return torch.where(against_engine & ~torch.isnan(batch.engine), batch.engine, batch.old)


def share(
    logits: Tensor, values: Tensor, batch: DeviceBatch, mini: MiniBatch, cfg: ObjectiveConfig
) -> tuple[Tensor, Tensor]:
    """The loss (scalar) and the sums of `SUMS` [len(SUMS)], detached, float64 where the device has it.

    `batch.old` None means that nothing has been stepped yet: the log-probs of the update's start are the new
    ones, kept for later.
    """
    new, entropies = logprobs(logits, batch, entropy_grad=cfg.entropy_coef > 0)
    if batch.old is None:
        batch.old = new.detach()
    old = _old(new, batch, cfg)
    mask = torch.ones_like(new, dtype=torch.bool)
    counts = Counts(mini.tokens, mini.rows, mini.trials)
    mean, units = cfg.normalise, batch.unit_tokens
    weights = importance_weights(
        old,
        batch.engine,
        mask,
        mode=cfg.importance if cfg.old == "recompute" else "none",
        cap=cfg.importance_cap,
    )
    off = batch.off_policy
    weights = torch.where(off, 1.0, weights)
    kept = ~off | stabilising_mask(
        batch.engine if cfg.mask_source == "behaviour" else new.detach(),
        off,
        delta=cfg.mask_delta,
        scope=cfg.mask_scope,
        turn=batch.turn,
    )
    surrogate = clipped_surrogate(
        new, old, batch.advantage, kept, clip_low=cfg.clip_low, clip_high=cfg.clip_high, weights=weights
    )
    policy = -normalised_mean(surrogate, mask, counts, mean=mean, unit_tokens=units)
    loss = policy
    if cfg.entropy_coef > 0:
        loss = loss + entropy_bonus(
            entropies, mask, counts, coefficient=cfg.entropy_coef, mean=mean, unit_tokens=units
        )
    kl_sum = new.new_zeros(())
    if cfg.kl_coef > 0:
        if batch.reference is None:
            raise ValueError("a KL term needs the reference's log-probs")
        kl = k3(new, batch.reference, mask)
        kl_sum = kl.detach().sum()
        loss = loss + cfg.kl_coef * normalised_mean(kl, mask, counts, mean=mean, unit_tokens=units)
    v_loss = new.new_zeros(())
    if mini.values:
        v_loss = value_loss(
            values, batch.value_target, torch.ones_like(values, dtype=torch.bool), mini.values
        )
        loss = loss + cfg.value_coef * v_loss
    if not batch.ways:
        loss = loss + 0.0 * logits.sum()
    with torch.no_grad():
        sums = policy_sums(new, old, batch.advantage, mask, clip_low=cfg.clip_low, clip_high=cfg.clip_high)
        # Off policy, engine and learner read different prompts: the difference is no mismatch.
        mismatch, sampled = mismatch_sum(batch.engine, old, ~off)
        ratio = torch.exp(bounded(new - old))
        report = torch.stack(
            [
                sums.tokens.double(),
                policy.detach().double(),
                entropies.detach().sum().double(),
                kl_sum.double(),
                v_loss.detach().double(),
                sums.ratio.double(),
                sums.clipped.double(),
                mismatch.double(),
                sampled.double(),
                (weights == 0).sum().double(),
                ratio[~off].square().sum().double(),
                off.sum().double(),
                ratio[off].sum().double(),
                ratio[off].square().sum().double(),
                (off & ~kept).sum().double(),
            ]
        )
    return loss, report

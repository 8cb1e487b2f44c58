"""One update on one rank: log-probs of the start, then forward, backward and step for each mini-batch.

An update runs in this order:

1. reference and old log-probs, by forward passes under the weights at the start of the update. The rows of
the first
   mini-batch need no pass of their own: before the first step the new log-probs are the old ones.
2. for each epoch and mini-batch: forward and backward over the micro-batches, then one optimiser step.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from learner.loss import DeviceBatch

if TYPE_CHECKING:
    from learner.batching.tensors import Shard
    from learner.rank import LearnerRank


class UpdateRun:
    """The state of one update on one rank."""

    def __init__(self, rank: LearnerRank, shard: Shard) -> None:
        self.rank, self.shard = rank, shard
        normalise = rank.settings.objective.normalise
        self.batches = [
            [DeviceBatch.of(micro, rank.device, normalise) for micro in mini.micro]
            for mini in shard.minibatches
        ]
        self.sums = torch.zeros(len(rank.method.sums), dtype=torch.float64, device=rank.device)
        self.norms: list[float] = []
        self.applied = self.skipped = 0
        self.old_s = self.forward_s = self.backward_s = self.step_s = 0.0

    def before(self) -> None:
        """Fill in reference and old log-probs."""
        started = time.perf_counter()
        method = self.rank.method
        for number, parts in enumerate(self.batches):
            for batch in parts:
                if method.kl_coef > 0:
                    batch.reference = self.rank.reference_logprobs(batch)
                if number > 0 and method.needs_old(batch):
                    batch.old = self.rank.logprobs(batch, self.rank.model)
        self.old_s = time.perf_counter() - started

    def step(self, number: int, lr: float) -> None:
        """One mini-batch: gradients of all its micro-batches, then a step."""
        mini, engine = self.shard.minibatches[number], self.rank.engine
        sums = torch.zeros_like(self.sums)
        last = len(mini.micro) - 1
        for place, batch in enumerate(self.batches[number]):
            t0 = time.perf_counter()
            logits, values = engine(batch.ids, batch.index, batch.positions, batch.value_at, **batch.pictures)
            loss, report = self.rank.method.share(logits, values, batch, mini)
            t1 = time.perf_counter()
            engine.backward(loss, last=place == last)
            self.backward_s += time.perf_counter() - t1
            self.forward_s += t1 - t0
            sums += report
        t0 = time.perf_counter()
        stepped, norm = engine.step(lr)
        self.step_s += time.perf_counter() - t0
        if stepped:
            self.applied += 1
            self.norms.append(norm)
            self.sums += sums
        else:
            self.skipped += 1

    def metrics(self, lr: float) -> dict[str, float]:
        """Means over the tokens of the applied steps, over all ranks."""
        if self.rank.world > 1:
            dist.all_reduce(self.sums)
        total = dict(zip(self.rank.method.sums, self.sums.tolist(), strict=True))
        tokens, sampled, steps = max(total["tokens"], 1.0), max(total["sampled"], 1.0), max(self.applied, 1)
        return {
            "policy_loss": total["policy_loss"] / steps,
            "entropy": total["entropy"] / tokens,
            "kl": total["kl"] / tokens,
            "ratio_mean": total["ratio"] / tokens,
            "clip_fraction": total["clipped"] / tokens,
            "mismatch_kl": total["mismatch"] / sampled,
            "masked_share": total["masked"] / tokens,
            "grad_norm": sum(self.norms) / max(len(self.norms), 1),
            "lr": lr,
            "tokens_trained": total["tokens"],
            "steps": float(self.applied),
            "skipped_steps": float(self.skipped),
            "empty": 0.0,
            "old_s": self.old_s,
            "forward_s": self.forward_s,
            "backward_s": self.backward_s,
            "step_s": self.step_s,
            **self.rank.method.metrics(total, steps),
        }

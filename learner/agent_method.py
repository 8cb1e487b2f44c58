"""LaMer, plain RL and EMPO²: the policy that acts learns from its own turns (rows.py, loss.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from agentmem.trajectory import Trial
from learner.batching.tensors import MiniBatch
from learner.intrinsic import IntrinsicRewards
from learner.loss import SUMS, DeviceBatch, share
from learner.row import Row, RowBatch
from learner.rows import Values, build_rows
from learner.settings import RankSettings


class AgentMethod:
    """See `learner.method.Method`. Rank 0 counts what is new to the policy, if that is paid (EMPO²)."""

    sums = SUMS

    def __init__(self, settings: RankSettings, rank: int) -> None:
        self._settings = settings
        self.kl_coef = settings.objective.kl_coef
        self._intrinsic: IntrinsicRewards | None = None
        memory = settings.memory
        if rank == 0 and memory is not None and memory.novelty.coefficient > 0:
            self._intrinsic = IntrinsicRewards(memory)

    def rows(
        self,
        trials: Sequence[Sequence[Trial]],
        *,
        values: Values | None = None,
        replayed: int = 0,
        examples: Sequence[Row] = (),
    ) -> RowBatch:
        """One row per turn of the policy."""
        if examples:
            raise ValueError(f"{len(examples)} examples: only a memory policy is trained on some")
        return build_rows(
            trials,
            self._settings.credit,
            policy=self._settings.policy,
            invalid_penalty=self._settings.invalid_penalty,
            values=values,
            replayed=replayed,
            intrinsic=None if self._intrinsic is None else self._intrinsic.of(trials, replayed),
        )

    def needs_old(self, batch: DeviceBatch) -> bool:
        """Not where the ratio is against the engine."""
        objective = self._settings.objective
        if objective.old == "recompute":
            return True
        return objective.off_policy_old == "student" and bool(batch.off_policy.any())

    def share(
        self, logits: Tensor, values: Tensor, batch: DeviceBatch, mini: MiniBatch
    ) -> tuple[Tensor, Tensor]:
        """`loss.share`."""
        return share(logits, values, batch, mini, self._settings.objective)

    def metrics(self, total: Mapping[str, float], steps: int) -> dict[str, float]:
        """The value head's loss, and what the two kinds of prompts did."""
        values = {"value_loss": total["value_loss"] / steps} if self._settings.has_values else {}
        return {**values, **by_prompt(total)}

    def state(self) -> dict[str, Any]:
        """The counts of states."""
        return {"novelty": self._intrinsic.state() if self._intrinsic is not None else None}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """The counts of states."""
        if self._intrinsic is not None:
            self._intrinsic.restore(saved["novelty"] or {})


def by_prompt(total: Mapping[str, float]) -> dict[str, float]:
    """Mean ratio and effective sample size (as a share of the tokens, (Σρ)²/(n Σρ²)) of the tokens trained on
    the prompt that was answered, and of those trained off policy, with the share that the mask took. What
    there are no tokens of is left out.
    """
    off = total["off_tokens"]
    own = total["tokens"] - off
    parts = {
        "on": (own, total["ratio"] - total["off_ratio"], total["ratio_squared"]),
        "off": (off, total["off_ratio"], total["off_ratio_squared"]),
    }
    found: dict[str, float] = {}
    for name, (tokens, ratio, squared) in parts.items():
        if tokens > 0:
            found[f"{name}_policy_ratio"] = ratio / tokens
            found[f"{name}_policy_ess"] = ratio**2 / (tokens * max(squared, 1e-30))
    if off > 0:
        found["off_policy_masked"] = total["off_masked"] / off
        found["off_policy_tokens"] = off
    return found

"""What an update gives: plain values that travel between processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from learner.batching.tensors import PlanStats, Shard
from learner.row import RowStats, TrialRecord


@dataclass(frozen=True, slots=True)
class Prepared:
    """What rank 0 makes of an update's groups: counts, records, and one shard per rank."""

    rows: RowStats
    plan: PlanStats
    records: list[TrialRecord]
    shards: list[Shard]
    seconds: float
    numbers: dict[str, float] = field(default_factory=dict)
    """What the method has to report of the groups."""


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """An update. `version` is that of the weights now: one more than before if any step was applied.

    `metrics`: policy_loss, entropy (nats), kl, value_loss (PPO), ratio_mean, clip_fraction, mismatch_kl,
    masked_share, grad_norm (before clipping), lr, tokens_trained, steps, skipped_steps, empty, and seconds:
    prepare_s, old_s, forward_s, backward_s, step_s, update_s (rank 0), and cpu_s, CPU seconds of rank 0.
    `empty` 1: no usable row, nothing was done. A method adds its own (`Method.metrics`).
    """

    version: int
    applied: bool
    metrics: dict[str, float]
    rows: RowStats = field(default_factory=RowStats)
    plan: PlanStats = field(default_factory=PlanStats)
    records: list[TrialRecord] = field(default_factory=list)


def result_of(version: int, applied: bool, metrics: dict[str, float], prepared: Prepared) -> UpdateResult:
    """Put an update's parts together."""
    return UpdateResult(
        version=version + int(applied),
        applied=applied,
        metrics={**prepared.numbers, **metrics, "prepare_s": prepared.seconds},
        rows=prepared.rows,
        plan=prepared.plan,
        records=prepared.records,
    )

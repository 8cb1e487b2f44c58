"""Mem-π's Stage 1 on a learner group: `distil` trains, measures after each epoch, saves, and resumes.

Each step is an update of the group on one batch of examples (stage1.py), so ranks, ZeRO, micro-batches by
token budget, checkpoints and the skipping of bad gradients are those of every other training. Interrupted at
any moment and called again with the same arguments, it goes on from the newest complete checkpoint and ends
with the weights that it would have ended with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.config.advice import AdviceConfig
from agentmem.failures import ConfigError
from learner.stage1 import batch_of, fingerprint, steps_of

if TYPE_CHECKING:
    from learner.group import LearnerGroup
    from learner.row import Row

MARK = "stage1"
"""The key of what a checkpoint knows of the training."""


@dataclass(frozen=True, slots=True)
class DistilStep:
    """After a step. Losses in nats per hint token; `held_out` after the last step of an epoch only."""

    step: int
    steps: int
    epoch: int
    """Epochs done, with fractions left out."""
    loss: float | None
    """None: its gradient wasn't finite, and it was skipped."""
    lr: float
    tokens: int
    """Trained tokens of the step."""
    held_out: float | None = None


@dataclass(frozen=True, slots=True)
class Distilled:
    """Of the whole training, what happened before a resumption included."""

    steps: int
    before: float | None
    """Held-out loss before the first step; None without held-out rows."""
    held_out: list[float]
    """The same after each epoch."""


def distil(
    learner: LearnerGroup,
    rows: Sequence[Row],
    held_out: Sequence[Row] = (),
    *,
    checkpoints: str | Path,
    on_step: Callable[[DistilStep], None] | None = None,
) -> Distilled:
    """Train `learner`, whose settings are `stage1.settings_of`'s for these rows, through all epochs.

    Checkpoints are kept under `checkpoints`, every `learner.checkpoint_every` steps and after each epoch.
    Raises ConfigError without rows, or if the checkpoint there is of other rows or settings.
    """
    settings = learner.settings
    advice = settings.advice or AdviceConfig()
    cfg = advice.stage1
    if not rows:
        raise ConfigError("Stage 1 was given no records")
    mark = fingerprint(rows, cfg, settings.seed)
    steps, an_epoch = steps_of(len(rows), cfg), steps_of(len(rows), cfg) // cfg.epochs
    measured: list[float] = []
    before: float | None = None
    done = 0
    found = learner.load_checkpoint(checkpoints)
    if found is not None:
        known = found.extra.get(MARK, {})
        if known.get("of") != mark:
            raise ConfigError(
                f"checkpoint {found.path} is of other records or other settings of advice.stage1: "
                "continue with those, or give another folder"
            )
        done, before, measured = found.step, known["before"], list(known["held_out"])
    elif held_out:
        before = learner.example_loss(held_out)
    for step in range(done, steps):
        batch = batch_of(step, records=len(rows), batch=cfg.batch, seed=settings.seed)
        result = learner.update([], step, examples=[rows[i] for i in batch])
        done = step + 1
        epoch_ends = done % an_epoch == 0
        loss = learner.example_loss(held_out) if epoch_ends and held_out else None
        if loss is not None:
            measured.append(loss)
        if epoch_ends or done % settings.learner.checkpoint_every == 0:
            learner.save_checkpoint(
                checkpoints, done, {MARK: {"of": mark, "before": before, "held_out": measured}}
            )
        if on_step is not None:
            on_step(
                DistilStep(
                    step=done,
                    steps=steps,
                    epoch=done // an_epoch,
                    loss=result.metrics["example_loss"] if result.applied else None,
                    lr=result.metrics["lr"],
                    tokens=int(result.metrics["tokens_trained"]),
                    held_out=loss,
                )
            )
    return Distilled(steps=steps, before=before, held_out=measured)

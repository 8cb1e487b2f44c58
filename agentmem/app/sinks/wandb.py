"""Weights & Biases: one of its runs for each of ours, under our run's name.

Settings by its own variables: WANDB_API_KEY, WANDB_PROJECT (default `agentmem`), WANDB_ENTITY, WANDB_MODE
(`offline` writes to the run's directory), WANDB_BASE_URL.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STEP = "updates"
"""Records of one update arrive at different times, so W&B's own step, which only grows, doesn't serve."""


class Wandb:
    """See `Sink`."""

    def __init__(self, run: str, config: Mapping[str, Any], directory: Path) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "agentmem"),
            id=run,
            name=run,
            resume="allow",
            config=dict(config),
            dir=str(directory),
            settings=wandb.Settings(console="off", silent=True, x_disable_stats=True),
        )
        self._run.define_metric("*", step_metric=STEP)

    def publish(self, step: int, scalars: Mapping[str, float]) -> None:
        self._run.log({STEP: step, **scalars})

    def close(self) -> None:
        self._run.finish()


def open_sink(run: str, config: Mapping[str, Any], directory: Path) -> Wandb:
    """Waits for W&B's service; raises its errors (no key, no server)."""
    return Wandb(run, config, directory)

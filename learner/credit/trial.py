"""What credit assignment reads and writes: the rewards of a trial in, one advantage per turn out.

Both shapes follow the trial: `act[n][t]` belongs to turn t of episode n, `reflect[n]` to the reflection
between the episodes n and n+1. A trial without reflections (memory mode `history`) has `reflections=0`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

PerTurn = tuple[tuple[float, ...], ...]
"""One number per act turn: [episode][turn]."""


@dataclass(frozen=True, slots=True)
class EpisodeRewards:
    """One episode as credit assignment sees it.

    `rewards[t]` is the learning reward of act turn t, `None` where the infrastructure failed.
    `observations[t]` is the text that turn t was shown; only GiGPO reads it, so others may leave it empty.
    """

    rewards: tuple[float | None, ...]
    observations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrialRewards:
    """The episodes of one trial in the order played; `valid` is False when the trial as a whole failed."""

    episodes: tuple[EpisodeRewards, ...]
    reflections: int = 0
    valid: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.reflections <= max(len(self.episodes) - 1, 0):
            raise ValueError(
                f"{self.reflections} reflections do not fit between {len(self.episodes)} episodes: "
                "a reflection is credited with the episode that follows it"
            )


@dataclass(frozen=True, slots=True)
class TrialAdvantages:
    """One advantage per turn of a trial; `value_targets` is set by PPO alone and has the shape of `act`."""

    act: PerTurn
    reflect: tuple[float, ...]
    value_targets: PerTurn | None = None

    def rows(self) -> Iterator[float]:
        """Every advantage of the trial: its act turns, then its reflections."""
        for episode in self.act:
            yield from episode
        yield from self.reflect


def usable_rewards(trial: TrialRewards) -> list[Sequence[float]] | None:
    """The rewards of each episode, or None for a trial that must not enter a return or a baseline.

    That is a trial marked invalid, without any episode, or with a reward that is `None`, NaN or infinite.
    """
    if not trial.valid or not trial.episodes:
        return None
    rewards: list[Sequence[float]] = []
    for episode in trial.episodes:
        if None in episode.rewards:
            return None
        known = cast(tuple[float, ...], episode.rewards)
        # One NaN or infinity makes the sum non-finite, whatever the others are.
        if not math.isfinite(sum(known)):
            return None
        rewards.append(known)
    return rewards

"""EMPO²'s intrinsic rewards of an update's trials, counted where rewards become advantages.

The learner counts, since it sees each trial once, in the order in which it trains them, and its checkpoint
takes the counts along: after a restart the same trials are paid the same. The equation is that of
`memory/novelty.py`. A trial without a reward (infrastructure failed) isn't counted; groups of the replay
table were counted when they were new, and are paid nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from agentmem.config.schema import MemoryConfig
from agentmem.memory.embedding import CachedEmbedder, Embedder, load_embedder
from agentmem.memory.modes import UpdateMode
from agentmem.memory.novelty import Novelty, NoveltyState
from agentmem.trajectory import Task, Trial, TurnKind


class IntrinsicRewards:
    """The counts of a run. `embedder` None: the one that the configuration names."""

    def __init__(self, config: MemoryConfig, embedder: Embedder | None = None) -> None:
        self._config = config.novelty
        self._novelty = Novelty(config.novelty.tau)
        self._embedder = CachedEmbedder(embedder or load_embedder(config.embedder))
        self._modes = frozenset(config.novelty.modes)

    def of(
        self, groups: Sequence[Sequence[Trial]], replayed: int = 0
    ) -> list[list[list[list[float]] | None]]:
        """[group][trial][episode][act turn]; None for a trial that is paid nothing. Counts the visits."""
        bonus = self._config.coefficient * self._config.reward_scale
        new = len(groups) - replayed
        self._embed_all(groups[:new])
        return [
            [self._trial(trial, bonus) if g < new and self._counts(trial) else None for trial in group]
            for g, group in enumerate(groups)
        ]

    def _counts(self, trial: Trial) -> bool:
        return trial.valid and (trial.mode.draw or UpdateMode.PLAIN.value) in self._modes

    def _trial(self, trial: Trial, bonus: float) -> list[list[float]]:
        task = self._scope(trial.task)
        episodes = []
        for episode in trial.episodes:
            seen = [turn.observation for turn in episode.turns if turn.kind is TurnKind.ACT]
            novel = self._novelty.visit_all(task, self._embedder.embed(seen)) if seen else []
            episodes.append([bonus * value for value in novel])
        return episodes

    def _embed_all(self, groups: Sequence[Sequence[Trial]]) -> None:
        """One batch for the whole update: what follows finds its embeddings in the cache."""
        texts = {
            t.observation for group in groups for trial in group for e in trial.episodes for t in e.turns
        }
        self._embedder.embed(sorted(texts))

    def _scope(self, task: Task) -> str:
        if self._config.scope == "environment":
            return task.world
        return f"{task.environment}:{task.instance}"

    def state(self) -> dict[str, Any]:
        """Everything that is counted, in types that `torch.load(weights_only=True)` reads."""
        return {
            task: (torch.from_numpy(np.array(s.unit)), torch.from_numpy(np.array(s.visits)), s.zero_visits)
            for task, s in self._novelty.state().items()
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Replace what is counted by what `state` returned."""
        self._novelty.restore(
            {
                task: NoveltyState(unit.numpy(), visits.numpy(), int(zero))
                for task, (unit, visits, zero) in state.items()
            }
        )

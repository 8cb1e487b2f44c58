"""Inter-episode memory: what the prompts of an episode carry of the trial's earlier episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from agentmem.failures import ConfigError
from agentmem.trajectory import Episode
from envs.base import EpisodeMemory


class MemoryMode(StrEnum):
    """Which parts of an earlier episode are carried over."""

    NONE = "none"
    """Nothing: each episode is played as if it were the first."""
    HISTORY = "history"
    """The environment's account of what happened."""
    REFLECTION = "reflection"
    """What the policy wrote about it."""
    BOTH = "both"

    @classmethod
    def named(cls, name: str) -> MemoryMode:
        """The mode of this name."""
        if name not in list(cls):
            raise ConfigError(f"inter-episode memory is {name!r}: known are {', '.join(cls)}")
        return cls(name)


@dataclass(frozen=True, slots=True)
class EpisodeMemories:
    """The `Memory` of a mode. The first episode's memory block is always empty."""

    mode: MemoryMode

    @property
    def needs_summary(self) -> bool:
        """History is what the environment says."""
        return self.mode in (MemoryMode.HISTORY, MemoryMode.BOTH)

    @property
    def needs_reflection(self) -> bool:
        """Reflections are asked for only where they are read."""
        return self.mode in (MemoryMode.REFLECTION, MemoryMode.BOTH)

    def recall(self, episodes: Sequence[Episode], reflections: Sequence[str]) -> tuple[EpisodeMemory, ...]:
        """One entry an episode, oldest first; parts that the mode leaves out are None."""
        if self.mode is MemoryMode.NONE:
            return ()
        return tuple(
            EpisodeMemory(
                index=n,
                success=episode.success,
                summary=episode.summary if self.needs_summary else None,
                reflection=reflections[n] if self.needs_reflection and n < len(reflections) else None,
            )
            for n, episode in enumerate(episodes)
        )

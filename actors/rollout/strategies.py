"""What methods do differently in a trial, as data: the trial loop (trial.py) is the same for all.

LaMer plays up to N episodes with inter-episode memory; plain RL is N = 1; EMPO² shows tips in its prompts, in
the modes that are drawn so; Mem-π's hints are an advisor's, beside the loop. A method with more to say puts
it into a strategy object here: it never copies the loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from actors.rollout.memory import EpisodeMemories, MemoryMode
from actors.rollout.protocols import Memory
from agentmem.failures import ConfigError
from agentmem.memory.modes import UpdateMode
from agentmem.trajectory import Mode


@dataclass(frozen=True, slots=True)
class Strategy:
    """How a trial is played."""

    episodes: int
    """Most episodes (N)."""
    memory: Memory
    """What an episode knows of earlier ones, and whether the policy reflects between them."""
    recalls_tips: bool = False
    """Whether prompts show tips."""
    student_prompts: bool = False
    """Whether turns carry the prompt without tips, too: that is what they are trained on."""

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise ConfigError(f"episodes is {self.episodes}: a trial has at least 1")


@lru_cache(maxsize=64)
def strategy_of(mode: Mode) -> Strategy:
    """The strategy of a ticket's mode. Plain RL is evaluated over several episodes like LaMer, so all methods
    read the number of episodes and the memory from the mode."""
    if mode.method not in METHODS:
        raise ConfigError(f"method is {mode.method!r}: known are {', '.join(METHODS)}")
    if mode.draw and mode.draw not in list(UpdateMode):
        raise ConfigError(f"the mode of an update is {mode.draw!r}: known are {', '.join(UpdateMode)}")
    drawn = UpdateMode(mode.draw) if mode.draw else UpdateMode.PLAIN
    return Strategy(
        episodes=mode.episodes,
        memory=EpisodeMemories(MemoryMode.named(mode.memory)),
        recalls_tips=drawn.recalls,
        student_prompts=drawn is UpdateMode.OFF_POLICY,
    )


METHODS = ("lamer", "rl", "empo2", "mempi")

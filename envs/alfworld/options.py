"""What can be set for ALFWorld. The defaults are the customary setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envs.options import require

TaskType = Literal["pick", "look", "clean", "heat", "cool", "pick2"]
ALL_TYPES: tuple[TaskType, ...] = ("pick", "look", "clean", "heat", "cool", "pick2")
TRAINED_TYPES: tuple[TaskType, ...] = ("pick", "look", "clean", "heat")
HELD_OUT_TYPES: tuple[TaskType, ...] = ("cool", "pick2")


@dataclass(frozen=True, slots=True)
class Options:
    """Which games, and how they are shown. `max_turns` is for the trial loop."""

    games: str = "full"
    """`full`: the official games (3,553 train, 140 seen, 134 unseen). `sample24`: 24 games with solutions.
    A path: a folder of one's own with `train`, `valid_seen` and `valid_unseen`, as ALFWorld's download."""
    eval_split: Literal["valid_unseen", "valid_seen"] = "valid_unseen"
    """The official split that `eval` is: rooms that don't occur in training, or rooms that do."""
    protocol: Literal["standard", "out_of_distribution"] = "standard"
    """`standard`: all six types everywhere. `out_of_distribution`: train on pick, look, clean and heat,
    evaluate on cool and pick2 (LaMer)."""
    task_types: tuple[TaskType, ...] = ()
    """Types of training games. Empty: as the protocol says."""
    eval_task_types: tuple[TaskType, ...] = ()
    """Types of evaluation games. Empty: as the protocol says."""
    max_turns: int = 50
    won_reward: float = 10.0
    """Reward of the turn that reaches the goal; every other turn has 0."""
    admissible: bool = True
    """List the possible commands in the prompt of each turn. Prompts then don't extend each other."""
    advice: Literal["text", "words"] = "text"
    """How a memory policy is asked: in chat messages, or in a few words of a small vocabulary."""
    history_turns: int = 50
    """Turns of the running attempt that a prompt shows."""
    observation_limit: int = 2000
    """Characters of an observation that a prompt shows; what is left out is said."""
    admissible_limit: int = 4000
    """Characters of the list of possible commands that a prompt shows; what is left out is said."""

    def __post_init__(self) -> None:
        require(self.max_turns >= 1, "max_turns", self.max_turns, "at least 1")
        require(self.history_turns >= 0, "history_turns", self.history_turns, "at least 0")
        require(self.observation_limit >= 100, "observation_limit", self.observation_limit, "at least 100")
        require(self.admissible_limit >= 100, "admissible_limit", self.admissible_limit, "at least 100")

    def types(self, split: str) -> tuple[TaskType, ...]:
        """The types of games that `train` or `eval` has."""
        named = self.task_types if split == "train" else self.eval_task_types
        if named or self.protocol == "standard":
            return named or ALL_TYPES
        return TRAINED_TYPES if split == "train" else HELD_OUT_TYPES

"""What can be set for Scout."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from envs.options import require


@dataclass(frozen=True, slots=True)
class Rewards:
    """Reward of a turn; looking from the tower earns nothing."""

    find: float = 1.0
    miss: float = 0.0


@dataclass(frozen=True, slots=True)
class Options:
    """`size`: rows = columns. `max_turns` is for the trial loop: the environment itself sets no limit."""

    size: int = 4
    landmarks: int = 3
    digs: int = 1
    """Digs of an episode; it ends with the last one."""
    max_turns: int = 2
    format: Literal["compact", "text"] = "text"
    history_turns: int = 7
    """Turns of the running attempt that the text format shows (the compact one shows the board alone)."""
    rewards: Rewards = field(default_factory=Rewards)
    admissible: bool = False
    """List the possible actions (and show them in the text format)."""

    def __post_init__(self) -> None:
        require(3 <= self.size <= 9, "size", self.size, "from 3 to 9")
        require(1 <= self.landmarks <= 4, "landmarks", self.landmarks, "from 1 to 4")
        require(1 <= self.digs <= 8, "digs", self.digs, "from 1 to 8")
        require(self.max_turns >= 1, "max_turns", self.max_turns, "at least 1")
        require(self.history_turns >= 0, "history_turns", self.history_turns, "at least 0")

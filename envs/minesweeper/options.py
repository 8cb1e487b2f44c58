"""What can be set for MineSweeper. The defaults are the published setting (LaMer)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from envs.options import require


@dataclass(frozen=True, slots=True)
class Rewards:
    """Reward of a turn. A winning click earns `win` alone; an unparsable answer earns 0 (the learner's
    invalid penalty deals with it)."""

    win: float = 10.0
    cell: float = 0.5
    """One cell was opened."""
    cascade: float = 2.0
    """Several cells were opened."""
    mine: float = -0.1
    no_effect: float = -1.0
    """The cell was open already."""


@dataclass(frozen=True, slots=True)
class Options:
    """`size`: rows = columns. `max_turns` is for the trial loop: the environment itself sets no limit."""

    size: int = 6
    mines: int = 3
    max_turns: int = 7
    format: Literal["compact", "text"] = "text"
    history_turns: int = 7
    """Turns of the running attempt that the text format shows (the compact one shows the board alone)."""
    rewards: Rewards = field(default_factory=Rewards)
    min_clicks: int = 1
    """Least number of clicks, cascades counted, that a board may be away from its win at the start."""
    max_clicks: int = 0
    """Greatest such number; 0: no limit."""
    admissible: bool = False
    """List the hidden cells as admissible actions (and show them in the text format)."""

    def __post_init__(self) -> None:
        require(2 <= self.size <= 32, "size", self.size, "from 2 to 32")
        most = self.size**2 - 2
        require(1 <= self.mines <= most, "mines", self.mines, f"from 1 to {most} at size {self.size}")
        require(self.max_turns >= 1, "max_turns", self.max_turns, "at least 1")
        require(self.history_turns >= 0, "history_turns", self.history_turns, "at least 0")
        require(self.min_clicks >= 1, "min_clicks", self.min_clicks, "at least 1 (0 is a solved board)")
        ok = self.max_clicks == 0 or self.max_clicks >= self.min_clicks
        require(ok, "max_clicks", self.max_clicks, f"0 (no limit) or at least min_clicks={self.min_clicks}")
        if self.format == "compact":
            require(self.size <= 8, "size", self.size, "at most 8 in the compact format")

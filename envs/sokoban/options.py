"""What can be set for Sokoban. The defaults are the published setting (LaMer)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from envs.options import require


@dataclass(frozen=True, slots=True)
class Rewards:
    """Rewards of a single move. A turn earns the sum of its moves."""

    move: float = -0.1
    """Every move, blocked ones too."""
    box_on: float = 1.0
    """A box was pushed onto a target."""
    box_off: float = -1.0
    """A box was pushed off a target."""
    solved: float = 10.0
    """All boxes are on targets."""


@dataclass(frozen=True, slots=True)
class Options:
    """`size` (rows = columns, the outer walls included), `boxes` and the bounds on the solution are those of
    generated rooms. `max_turns` is for the trial loop."""

    source: Literal["generated", "boxoban"] = "generated"
    """Rooms made from seeds, or Boxoban's levels: 10 x 10, four boxes, without bounds on the solution."""
    train_levels: Literal["unfiltered/train", "medium/train"] = "unfiltered/train"
    """Boxoban's levels to train on."""
    eval_levels: Literal["unfiltered/valid", "unfiltered/test", "medium/valid", "hard"] = "unfiltered/test"
    """Boxoban's levels to evaluate on."""
    size: int = 6
    boxes: int = 2
    max_moves_per_turn: int = 3
    max_turns: int = 7
    min_solution: int = 3
    """Fewest moves that the shortest solution of a room may have."""
    max_solution: int = 15
    """Most moves that the shortest solution may have."""
    rewards: Rewards = field(default_factory=Rewards)
    end_when_unsolvable: bool = True
    """End an episode (as a failure) once no solution exists any more."""
    format: Literal["compact", "text"] = "text"
    """`text`: chat messages. `compact`: a word a row, for small word-level models (generated rooms, at most
    3 moves a turn)."""
    history_turns: int = 7
    """Turns of the running attempt that the text format shows (the compact one shows the room alone)."""
    admissible: bool = False
    """List the single moves that aren't blocked as admissible actions."""

    @property
    def rows(self) -> int:
        """Rows and columns of every room."""
        return 10 if self.source == "boxoban" else self.size

    def __post_init__(self) -> None:
        require(5 <= self.size <= 16, "size", self.size, "from 5 to 16")
        most = min(8, (self.size - 2) ** 2 // 4)
        require(1 <= self.boxes <= most, "boxes", self.boxes, f"from 1 to {most} at size {self.size}")
        require(self.max_moves_per_turn >= 1, "max_moves_per_turn", self.max_moves_per_turn, "at least 1")
        require(self.max_turns >= 1, "max_turns", self.max_turns, "at least 1")
        require(self.history_turns >= 0, "history_turns", self.history_turns, "at least 0")
        require(self.min_solution >= 1, "min_solution", self.min_solution, "at least 1 (0 is a solved room)")
        ok = self.max_solution >= self.min_solution
        require(ok, "max_solution", self.max_solution, f"at least min_solution={self.min_solution}")
        if self.format == "compact":
            require(self.source == "generated", "source", self.source, "generated with format=compact")
            few = self.max_moves_per_turn <= 3
            require(few, "max_moves_per_turn", self.max_moves_per_turn, "at most 3 with format=compact")
            require(self.size <= 7, "size", self.size, "at most 7 with format=compact")
            require(self.boxes <= 2, "boxes", self.boxes, "at most 2 with format=compact")

"""What can be set for Doors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from envs.options import require

KINDS = (
    "hall",
    "kitchen",
    "cellar",
    "attic",
    "library",
    "chapel",
    "stable",
    "garden",
    "pantry",
    "studio",
)
COLOURS = ("red", "blue", "green", "black", "white", "gold", "grey", "brown")


@dataclass(frozen=True, slots=True)
class Rewards:
    """Reward of a turn. A door that leads on, but not yet out, earns `on`."""

    goal: float = 1.0
    on: float = 0.0
    wrong: float = 0.0


@dataclass(frozen=True, slots=True)
class Options:
    """`max_turns` is for the trial loop: an episode ends by itself after at most `rooms` doors."""

    kinds: int = 8
    """Kinds of rooms: the first so many of hall, kitchen, cellar, attic, ..."""
    rooms: int = 5
    """Rooms of a house, each of another kind."""
    doors: int = 6
    """Doors of a room: the first so many of red, blue, green, ..."""
    rule: int = 0
    """Seed of the hidden rule which door of each kind of room leads on."""
    houses: int = 0
    """Houses of the train split that are used; 0: all. `eval` has all of its own."""
    max_turns: int = 5
    format: Literal["compact", "text"] = "text"
    advice: Literal["format", "words"] = "format"
    """How a memory policy is asked: as the format asks, or in the words of the compact one."""
    history_turns: int = 7
    """Turns of the running attempt that the text format shows (the compact one shows the room alone)."""
    rewards: Rewards = field(default_factory=Rewards)
    screenshot: bool = False
    """A picture of the first room: PNG bytes in `info["screenshot"]`. The compact format's question to a
    memory policy then leaves the room's name out: it has to look."""
    admissible: bool = False
    """List the doors as admissible actions (and show them in the text format)."""

    def __post_init__(self) -> None:
        require(2 <= self.kinds <= len(KINDS), "kinds", self.kinds, f"from 2 to {len(KINDS)}")
        most = min(self.kinds, 6)
        require(1 <= self.rooms <= most, "rooms", self.rooms, f"from 1 to {most} with {self.kinds} kinds")
        require(2 <= self.doors <= len(COLOURS), "doors", self.doors, f"from 2 to {len(COLOURS)}")
        require(self.rule >= 0, "rule", self.rule, "at least 0")
        require(self.houses >= 0, "houses", self.houses, "at least 0 (0: all)")
        require(self.max_turns >= 1, "max_turns", self.max_turns, "at least 1")
        require(self.history_turns >= 0, "history_turns", self.history_turns, "at least 0")

    @property
    def kind_words(self) -> tuple[str, ...]:
        """The kinds of rooms that there are."""
        return KINDS[: self.kinds]

    @property
    def door_words(self) -> tuple[str, ...]:
        """The doors that every room has."""
        return COLOURS[: self.doors]

"""What can be set for LifelongAgentBench's Linux tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envs.options import require


@dataclass(frozen=True, slots=True)
class Options:
    """The defaults are the benchmark's limits."""

    tasks: Literal["validated", "all"] = "validated"
    """`validated`: the 493 of 500 tasks that fail before and pass after their gold script in a box."""
    split_seed: int = 0
    """Decides which fifth of the tasks is `eval`."""
    root: str = ""
    """A root directory of a Linux system for the boxes. Empty: made by debootstrap in the cache."""
    max_rounds: int = 5
    """Answers that an episode has; after the last one it is judged as it stands."""
    end_on_invalid: bool = False
    """An answer that can't be read fails the episode, as in the benchmark. Otherwise it costs a round."""
    command_seconds: float = 20.0
    """Longest time of one script."""
    disk_mib: int = 128
    """What a box may write, in MiB of memory."""
    max_observation_chars: int = 2000
    """Longer output is cut, with a mark saying by how much."""
    history_turns: int = 5
    """Turns of the running attempt that a prompt shows."""

    def __post_init__(self) -> None:
        require(self.max_rounds >= 1, "max_rounds", self.max_rounds, "at least 1")
        seconds = self.command_seconds
        require(0 < seconds <= 600, "command_seconds", seconds, "above 0, at most 600")
        require(16 <= self.disk_mib <= 65536, "disk_mib", self.disk_mib, "from 16 to 65536")
        least = self.max_observation_chars >= 100
        require(least, "max_observation_chars", self.max_observation_chars, "at least 100")
        require(self.history_turns >= 0, "history_turns", self.history_turns, "at least 0")

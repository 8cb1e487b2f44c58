"""What can be set for LifelongAgentBench's database tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envs.options import require


@dataclass(frozen=True, slots=True)
class Options:
    """The defaults are the benchmark's limits, on SQLite."""

    url: str = ""
    """Empty: SQLite, in memory. Or a MariaDB server, mysql://user:password@host:port, whose account may
    create databases and accounts."""
    tasks: Literal["portable", "all"] = "portable"
    """`portable`: the 406 of 500 tasks whose gold statement gives the expected answer on both engines."""
    split_seed: int = 0
    """Decides which fifth of the tasks is `eval`."""
    max_rounds: int = 3
    """Answers that an episode has; after the last one it is judged as it stands."""
    end_on_invalid: bool = False
    """An answer that can't be read fails the episode, as in the benchmark. Otherwise it costs a round."""
    statement_seconds: float = 5.0
    """Longest time of a statement."""
    max_observation_chars: int = 2000
    """Longer results are cut, with a mark saying by how much."""
    history_turns: int = 3
    """Turns of the running attempt that a prompt shows."""

    def __post_init__(self) -> None:
        if self.url:
            from envs.lab.db.mariadb import parse_url

            parse_url(self.url)
        require(self.max_rounds >= 1, "max_rounds", self.max_rounds, "at least 1")
        seconds = self.statement_seconds
        require(0 < seconds <= 600, "statement_seconds", seconds, "above 0, at most 600")
        least = self.max_observation_chars >= 100
        require(least, "max_observation_chars", self.max_observation_chars, "at least 100")
        require(self.history_turns >= 0, "history_turns", self.history_turns, "at least 0")

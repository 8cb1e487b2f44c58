"""The matrix: victims x moments x signals, and where each moment is held.

A moment is a state of the system. It is held (`agentmem.chaos`) by the part that passes it, which is the
victim itself wherever the victim has such a moment of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Victim = Literal["env worker", "agent actor", "engine", "Redis", "learner rank", "driver"]
Moment = Literal["idle", "mid-turn", "between episodes", "mid-commit", "mid-weight-update", "mid-checkpoint"]
Signal = Literal["SIGKILL", "SIGSTOP", "10x slow"]

TITLES: dict[Victim, str] = {
    "env worker": "ray::EnvWorker",
    "agent actor": "ray::AgentActor",
    "engine": "ray::EngineActor",
    "learner rank": "ray::RankActor",
}
"""How the victims' processes are called; Redis and the driver are found in other ways."""

_PLACES: dict[Moment, str] = {
    "idle": "driver.issue",
    "mid-turn": "engine.turn",
    "between episodes": "agent.episode",
    "mid-commit": "agent.commit",
    "mid-weight-update": "engine.swap",
    "mid-checkpoint": "learner.checkpoint",
}
_OWN: dict[tuple[Victim, Moment], str] = {
    ("env worker", "mid-turn"): "env.turn",
    ("learner rank", "mid-weight-update"): "learner.publish",
}
_PARTS: dict[str, Victim] = {
    "driver": "driver",
    "engine": "engine",
    "agent": "agent actor",
    "learner": "learner rank",
    "env": "env worker",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the matrix."""

    victim: Victim
    moment: Moment
    signal: Signal

    @property
    def place(self) -> str:
        """The name of the moment in the code."""
        return _OWN.get((self.victim, self.moment), _PLACES[self.moment])

    @property
    def engine(self) -> str:
        """The engine's backend: vLLM where it is the victim, else the small one, which starts sooner."""
        return "vllm" if self.victim == "engine" else "torch"

    @property
    def own(self) -> bool:
        """Whether the victim is the part that is held."""
        return _PARTS[self.place.partition(".")[0]] == self.victim

    def __str__(self) -> str:
        return f"{self.victim}, {self.moment}, {self.signal}"


def matrix() -> list[Cell]:
    """All cells; what costs a new start of the run comes last."""
    return [
        Cell(victim, moment, signal)
        for victim in get_args(Victim)
        for moment in get_args(Moment)
        for signal in get_args(Signal)
    ]

"""What can be set for ScienceWorld. The defaults are the published setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envs.options import require
from envs.scienceworld.tasks import ELECTRICAL, TASKS

Simplification = Literal[
    "easy", "teleportAction", "selfWateringFlowerPots", "openContainers", "openDoors", "noElectricalAction"
]


@dataclass(frozen=True, slots=True)
class Options:
    """Which tasks, how hard, and how they are shown. `max_turns` is for the trial loop."""

    tasks: tuple[str, ...] = ()
    """Names of tasks (see `envs/scienceworld/tasks.py`). Empty: all 30."""
    eval_split: Literal["test", "dev"] = "test"
    """The official split of variations that `eval` is; `train` is the official one."""
    variations_per_task: int = 0
    """The first so many variations of each task, so that no task outweighs the others. 0: all."""
    eval_variations_per_task: int = 0
    """The same for `eval`. 0: as `variations_per_task`."""
    simplifications: tuple[Simplification, ...] = ("easy",)
    """`easy` is all of them (on electrical tasks all but `noElectricalAction`). Empty: as hard as it gets."""
    max_turns: int = 100
    reward_per_point: float = 1.0
    """Reward for each of the 100 points by which the score rises, or falls, in a turn."""
    admissible: bool = False
    """List the possible actions in the prompt of each turn: hundreds, found in up to half a second."""
    history_turns: int = 20
    """Turns of the running attempt that a prompt shows."""
    observation_limit: int = 3000
    """Characters of an observation that a prompt shows; what is left out is said."""
    admissible_limit: int = 6000
    """Characters of the list of possible actions that a prompt shows; what is left out is said."""
    heap_mb: int = 512
    """The most memory for the Java process's objects. Without a limit it took up to 1.8 GB."""

    def __post_init__(self) -> None:
        for task in self.tasks:
            require(task in TASKS, "tasks", task, "among " + ", ".join(TASKS))
        clash = sorted(ELECTRICAL & set(self.tasks)) if "noElectricalAction" in self.simplifications else []
        require(not clash, "simplifications", "noElectricalAction", f"left out for {', '.join(clash)}")
        known = self.variations_per_task
        require(known >= 0, "variations_per_task", known, "at least 0")
        known = self.eval_variations_per_task
        require(known >= 0, "eval_variations_per_task", known, "at least 0")
        require(self.max_turns >= 1, "max_turns", self.max_turns, "at least 1")
        require(self.history_turns >= 0, "history_turns", self.history_turns, "at least 0")
        require(self.observation_limit >= 100, "observation_limit", self.observation_limit, "at least 100")
        require(self.admissible_limit >= 100, "admissible_limit", self.admissible_limit, "at least 100")
        require(self.heap_mb >= 192, "heap_mb", self.heap_mb, "at least 192")

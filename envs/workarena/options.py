"""What can be set for WorkArena."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envs.browser.options import BrowserOptions
from envs.options import require
from envs.workarena.tasks import CATEGORIES, TASKS, listed


@dataclass(frozen=True, slots=True)
class Options(BrowserOptions):
    """The split `eval` is the benchmark's own: ten seeds, below 1,000, for each task."""

    max_turns: int = 15
    """Turns of an episode, as BrowserGym evaluates the first level; for the trial loop."""
    level: Literal["l1"] = "l1"
    """The level of difficulty: the 33 tasks of one step each. There are no others here yet."""
    categories: str = "all"
    """`all`, or categories of tasks with commas between them: dashboard, form, knowledge, list-filter,
    list-sort, menu, service-catalog."""
    tasks: str = "all"
    """`all`, or names of tasks with commas between them."""
    train_seeds: int = 100
    """How many seeds of each task the split `train` has, from 1,000."""
    pre_observation_delay_s: float = 0.5
    """As BrowserGym's: ServiceNow goes on working after a click, and a turn is scored right after it."""

    def __post_init__(self) -> None:
        BrowserOptions.__post_init__(self)
        for key, known in (("categories", tuple(CATEGORIES)), ("tasks", TASKS)):
            for name in listed(getattr(self, key)) or ():
                require(name in known, key, name, f"all, or of {', '.join(known)}")
        require(1 <= self.train_seeds <= 100_000, "train_seeds", self.train_seeds, "from 1 to 100000")

"""What can be set for MiniWoB++."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envs.browser.options import BrowserOptions
from envs.miniwob.tasks import TASKS, chosen
from envs.options import EnvSetupError, require


@dataclass(frozen=True, slots=True)
class Options(BrowserOptions):
    """`max_turns` is for the trial loop."""

    tasks: str = "all"
    """`all` (the 125 of the benchmark), `basic` (29 that a few clicks and entries do), or names of tasks with
    commas between them."""
    train_seeds: int = 200
    """How many seeds of each task the split `train` has, from 0."""
    eval_seeds: int = 5
    """How many the split `eval` has, from 10,000 (5, as BrowserGym evaluates)."""
    actions: Literal["all", "elements"] = "all"
    """`all`: BrowserGym's `miniwob_all`, with the mouse at coordinates and the keyboard; `elements`: its
    `miniwob_liu18`, click and fill on numbered elements (a much shorter prompt)."""
    turn_ms: int = 1000
    """How much of the page's time passes in a turn (see `clock`)."""
    observation_chars: int = 4000
    pre_observation_delay_s: float = 0.0

    def __post_init__(self) -> None:
        BrowserOptions.__post_init__(self)
        try:
            chosen(self.tasks)
        except KeyError as error:
            known = f"all, basic, or names of tasks ({', '.join(TASKS[:3])}, …)"
            raise EnvSetupError(f"option tasks={error.args[0]!r}: must be {known}") from None
        require(1 <= self.train_seeds <= 10_000, "train_seeds", self.train_seeds, "from 1 to 10000")
        require(1 <= self.eval_seeds <= 10_000, "eval_seeds", self.eval_seeds, "from 1 to 10000")
        require(0 <= self.turn_ms <= 60_000, "turn_ms", self.turn_ms, "from 0 to 60000")

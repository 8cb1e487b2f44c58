"""ScienceWorld: do an experiment in a house of ten rooms and show what you found.

A turn is one action in the simulator's words. Its reward is the change of the score (0 to 100 points). The
episode ends when the task is done, or when the score falls below zero, which it does for good when the agent
focuses on a wrong thing. There is no limit of moves besides the number of turns.

`info["score"]` is the score from 0 to 1 (0 after a failure), `info["points"]` the simulator's own, from 0 to
100 or -100. The points that a task gives for merely being where one starts are in the score, but are nobody's
reward.
"""

from __future__ import annotations

from typing import ClassVar

from envs.base import Info, PromptStyle, TextEnv
from envs.options import EnvSetupError
from envs.scienceworld.java import Simulator
from envs.scienceworld.options import Options
from envs.scienceworld.tasks import ELECTRICAL, TASKS, parsed

UNKNOWN = "No known action matches that input."
"""The simulator's answer to what it doesn't understand."""
_INVALID = (UNKNOWN, "Unknown action.")
_LONGEST = 500  # characters of an action; the longest possible ones have about 150


class ScienceWorld(TextEnv):
    """One variation of a task at a time. See the module's docstring."""

    name: ClassVar[str] = "scienceworld"

    def __init__(self, options: Options, style: PromptStyle) -> None:
        self.options = options
        self.style = style
        self.simulator: Simulator | None = None
        """Started by the first reset."""
        self._instance: tuple[str, int] | None = None
        self._observation = ""
        self._points = 0
        self._over = True

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        """Start the task and variation of `options["instance"]`, as in `boil/3`."""
        instance = (options or {}).get("instance")
        if instance is None:
            raise EnvSetupError("scienceworld: reset needs options={'instance': ...}")
        found = parsed(instance)
        if found is None:
            raise EnvSetupError(
                f"scienceworld has no instance {instance!r}: instances are TASK/VARIATION, as boil/0 to "
                f"boil/{sum(TASKS['boil']) - 1}; tasks are {', '.join(TASKS)}"
            )
        if found[0] in ELECTRICAL and "noElectricalAction" in self.options.simplifications:
            raise EnvSetupError(
                f"scienceworld: {found[0]} can't be done with simplification noElectricalAction"
            )
        self._instance = found
        return self.restart()

    def restart(self) -> tuple[str, Info]:
        """Back to the start: the simulator loads the variation again, as its own reset does, too."""
        if self._instance is None:
            raise EnvSetupError("scienceworld: restart before the first reset")
        if self.simulator is None or not self.simulator.alive:
            self.simulator = Simulator(self.options.heap_mb)
        self._observation = self.simulator.load(*self._instance, ",".join(self.options.simplifications))
        self._points = self.simulator.points()
        self._over = False
        return self._observation, {
            **self._info(),
            "instruction": self.simulator.task(),
            "task": self._instance[0],
        }

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        """Play one action. An ambiguous one is answered by a numbered list, to be answered by a number."""
        if self._instance is None or self.simulator is None:
            raise EnvSetupError("scienceworld: step before the first reset")
        if self._over:
            return self._observation, 0.0, True, False, self._info(invalid=True)
        action = action.strip()
        if not action or len(action) > _LONGEST or not action.isprintable():
            return UNKNOWN, 0.0, False, False, self._info(invalid=True)
        self._observation = self.simulator.step(action)
        before, self._points = self._points, self.simulator.points()
        self._over = self._points < 0 or self.simulator.completed()
        reward = self.options.reward_per_point * (self._points - before)
        info = self._info(invalid=self._observation.startswith(_INVALID))
        return self._observation, reward, self._over, False, info

    def admissible_actions(self) -> tuple[str, ...] | None:
        """All possible actions, if the option `admissible` asks for them."""
        if not self.options.admissible:
            return None
        return () if self._over or self.simulator is None else self.simulator.valid_actions()

    def close(self) -> None:
        """End the Java process."""
        self._instance, self._over = None, True
        if self.simulator is not None:
            self.simulator.close()
            self.simulator = None

    def _info(self, *, invalid: bool = False) -> Info:
        return {
            "success": self._points >= 100,
            "invalid": invalid,
            "score": max(self._points, 0) / 100,
            "points": self._points,
        }

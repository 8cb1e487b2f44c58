"""Doors: find the way through a house. In each room one door leads on; any other leads outside and ends it.

An action is a door's colour. The reward comes with the last right door alone, so random play meets it once in
`doors ** rooms` episodes (7,776 by default). The observation is the kind of the room, `outside` or `goal`.
"""

from __future__ import annotations

from typing import ClassVar

from envs.base import Info, PromptStyle, TextEnv
from envs.doors.house import rooms_of, rule_of
from envs.doors.options import Options
from envs.doors.picture import room_png
from envs.options import EnvSetupError

OUTSIDE, GOAL = "outside", "goal"


class Doors(TextEnv):
    """One house at a time. See the module's docstring."""

    name: ClassVar[str] = "doors"

    def __init__(self, options: Options, style: PromptStyle) -> None:
        self.options = options
        self.style = style
        self.rule = rule_of(options.rule, options.kind_words, options.door_words)
        """The right door of each kind of room; for scripted players."""
        self._rooms: tuple[str, ...] = ()
        self._at = 0
        self._outside = False

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        """Enter the house `options["instance"]`."""
        instance = (options or {}).get("instance", seed)
        if instance is None:
            raise EnvSetupError("doors: reset needs options={'instance': ...}")
        self._rooms = rooms_of(self.options, instance)
        return self.restart()

    def restart(self) -> tuple[str, Info]:
        """Back to the first room."""
        if not self._rooms:
            raise EnvSetupError("doors: restart before the first reset")
        self._at, self._outside = 0, False
        info: Info = {"success": False, "invalid": False}
        if self.options.screenshot:
            info["screenshot"] = room_png(self._rooms[0], self.options.door_words)
        return self._shown(), info

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        """Open a door."""
        rewards, through = self.options.rewards, self._at == len(self._rooms)
        if self._over or action not in self.options.door_words:
            return self._shown(), 0.0, self._over, False, {"success": through, "invalid": True}
        if action != self.rule[self._rooms[self._at]]:
            self._outside = True
            return OUTSIDE, rewards.wrong, True, False, {"success": False, "invalid": False}
        self._at += 1
        through = self._at == len(self._rooms)
        reward = rewards.goal if through else rewards.on
        return self._shown(), reward, through, False, {"success": through, "invalid": False}

    @property
    def _over(self) -> bool:
        return self._outside or self._at == len(self._rooms)

    def _shown(self) -> str:
        if self._outside:
            return OUTSIDE
        return GOAL if self._at == len(self._rooms) else self._rooms[self._at]

    def admissible_actions(self) -> tuple[str, ...] | None:
        """The doors, if the option `admissible` asks for them."""
        if not self.options.admissible:
            return None
        return () if self._over else self.options.door_words

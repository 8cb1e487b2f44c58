"""ALFWorld: find things in a room, change them, and put them where the task wants them.

An episode is one of the official games. The turn that reaches the goal earns `won_reward` and ends the
episode; nothing else is rewarded, and a game can't be lost, so only the number of turns limits it.
`info["score"]` is 1 when the goal is reached. `info` of a start has `task_type` and `placing` (which of the
two command grammars the game file has: `move` or `put`).
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from envs.alfworld.game import Game
from envs.alfworld.games import game_file, task_type
from envs.alfworld.options import Options
from envs.alfworld.text import instruction
from envs.base import Info, PromptStyle, TextEnv
from envs.options import EnvSetupError

NOTHING = "Nothing happens."


class AlfWorld(TextEnv):
    """One game at a time. See the module's docstring."""

    name: ClassVar[str] = "alfworld"

    def __init__(self, options: Options, style: PromptStyle) -> None:
        self.options = options
        self.style = style
        self.game = Game()
        self.file: Path | None = None
        """The file of the game that is played."""
        self.introduction = ""
        """What the game itself said at its start, with the task."""
        self._instance = ""
        self._observation = ""
        self._over = True

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        """Start the game of `options["instance"]`, the path of its folder."""
        instance = (options or {}).get("instance")
        if instance is None:
            raise EnvSetupError("alfworld: reset needs options={'instance': ...}")
        self.file = game_file(self.options.games, instance)
        self.game.load(self.file)
        self._instance = instance
        return self.restart()

    def restart(self) -> tuple[str, Info]:
        """Back to the game's start."""
        if self.file is None:
            raise EnvSetupError("alfworld: restart before the first reset")
        self.introduction = self.game.start()
        self._over = self.game.won
        self._observation = _room(self.introduction)
        ground = self.game.ground
        about = {
            "instruction": instruction(ground.task, ground.placing),
            "task_type": task_type(self._instance),
            "placing": ground.placing,
        }
        return self._observation, {**self._info(), **about}

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        """Play one command, exactly as the game spells it."""
        if self.file is None:
            raise EnvSetupError("alfworld: step before the first reset")
        if self._over:
            return self._observation, 0.0, True, False, self._info(invalid=True)
        told = self.game.play(action.strip())
        if told is None:
            return NOTHING, 0.0, False, False, self._info(invalid=True)
        self._observation, self._over = told, self.game.won
        reward = self.options.won_reward if self._over else 0.0
        return told, reward, self._over, False, self._info()

    def admissible_actions(self) -> tuple[str, ...] | None:
        """All commands that are possible now, save `help`, if the option `admissible` asks for them."""
        if not self.options.admissible:
            return None
        return () if self._over else tuple(command for command in self.game.commands if command != "help")

    def close(self) -> None:
        """Give the game's library back. The environment can't be used afterwards."""
        self.file, self._over = None, True
        self.game.close()

    def _info(self, *, invalid: bool = False) -> Info:
        return {"success": self.game.won, "invalid": invalid, "score": float(self.game.won)}


def _room(introduction: str) -> str:
    """The introduction without its greeting and without the task, which is the instruction."""
    room = introduction.partition("\n\n")[2].rpartition("\n\n")[0]
    return room or introduction

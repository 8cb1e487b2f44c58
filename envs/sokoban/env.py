"""Sokoban: push every box onto a target. A turn is up to `max_moves_per_turn` moves in a row.

A blocked move has no effect but costs a move. A turn's reward is the sum of its moves'; when a move solves
the room, the rest of the turn is ignored. `info["no_effect"]` is true when nothing moved in the turn, and
`info["unsolvable"]` when it is certain that no solution exists any more (which ends the episode if the
options say so).
"""

from __future__ import annotations

from typing import ClassVar

from envs.base import Info, PromptStyle, TextEnv
from envs.options import EnvSetupError
from envs.sokoban import boxoban
from envs.sokoban.compact import written
from envs.sokoban.generator import Puzzle, puzzle
from envs.sokoban.options import Options
from envs.sokoban.room import MOVES, Room, State, moved, rows, solved
from envs.sokoban.solver import BUDGET, solvable


class Sokoban(TextEnv):
    """One room at a time. See the module's docstring."""

    name: ClassVar[str] = "sokoban"

    def __init__(self, options: Options, style: PromptStyle) -> None:
        self.options = options
        self.style = style
        self.puzzle: Puzzle | None = None
        self._budget = boxoban.SOLVER_BUDGET if options.source == "boxoban" else BUDGET
        self._state = (0, 0)
        self._over = True

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        """Start `options["instance"]` (a seed or an address), or `seed` where no instance is given."""
        instance = (options or {}).get("instance", seed)
        if instance is None:
            raise EnvSetupError("sokoban: reset needs options={'instance': ...} or a seed")
        published = self.options.source == "boxoban"
        self.puzzle = boxoban.level(instance) if published else puzzle(self.options, instance)
        return self.restart()

    def restart(self) -> tuple[str, Info]:
        """Back to the room's start."""
        self._state = self._puzzle().start
        self._over = False
        return self._seen(), self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        """Play a turn: moves joined by `;`, as in `up; left`."""
        names = [name.strip() for name in action.split(";")]
        possible = len(names) <= self.options.max_moves_per_turn and all(name in MOVES for name in names)
        if self._over or not possible:
            return self._seen(), 0.0, self._over, False, self._info(invalid=True)
        place, rewards, before = self._puzzle().room, self.options.rewards, self._state
        reward = 0.0
        for name in names:
            reward += rewards.move
            after = moved(place, self._state, MOVES.index(name))
            if after is None:
                continue
            gained = (after[1] & place.targets).bit_count() - (self._state[1] & place.targets).bit_count()
            self._state = after
            if gained:
                reward += rewards.box_on if gained > 0 else rewards.box_off
            if solved(place, after):
                reward += rewards.solved
                self._over = True
                break
        pushed = self._state[1] != before[1] and not self._over
        unsolvable = pushed and solvable(place, self._state, self._budget) is False
        self._over = self._over or (unsolvable and self.options.end_when_unsolvable)
        info = self._info(no_effect=self._state == before, unsolvable=unsolvable)
        return self._seen(), reward, self._over, False, info

    @property
    def room(self) -> Room:
        """The room being played."""
        return self._puzzle().room

    @property
    def start(self) -> State:
        """Where player and boxes are at first."""
        return self._puzzle().start

    @property
    def state(self) -> State:
        """Where player and boxes are."""
        return self._state

    def _puzzle(self) -> Puzzle:
        if self.puzzle is None:
            raise EnvSetupError("sokoban: restart or step before the first reset")
        return self.puzzle

    def _seen(self) -> str:
        if self.options.format == "compact":
            return written(self.room, self._state)
        picture = rows(self.room, self._state)
        return "\n".join(f"Row {number}: " + " ".join(row) for number, row in enumerate(picture, 1))

    def _info(self, *, invalid: bool = False, no_effect: bool = False, unsolvable: bool = False) -> Info:
        success = solved(self._puzzle().room, self._state)
        return {"success": success, "invalid": invalid, "no_effect": no_effect, "unsolvable": unsolvable}

    def admissible_actions(self) -> tuple[str, ...] | None:
        """The moves that aren't blocked, if the option `admissible` asks for them."""
        if not self.options.admissible:
            return None
        if self._over:
            return ()
        place = self._puzzle().room
        return tuple(name for i, name in enumerate(MOVES) if moved(place, self._state, i) is not None)

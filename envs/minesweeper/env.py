"""MineSweeper: open every safe cell, by left clicks alone. Opening a mine ends the episode.

The first cell is open when an episode begins. `info["no_effect"]` is true when the clicked cell was open
already (a turn lost; not invalid). The observation is the board in the format's own writing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from envs.base import Info, PromptStyle, TextEnv
from envs.minesweeper.board import EMPTY, HIDDEN, MINE, faces, grid, opened_by
from envs.minesweeper.instances import opening
from envs.minesweeper.options import Options
from envs.options import EnvSetupError

Render = Callable[[Sequence[str]], str]


class MineSweeper(TextEnv):
    """One board at a time. See the module's docstring."""

    name: ClassVar[str] = "minesweeper"

    def __init__(self, options: Options, style: PromptStyle, render: Render) -> None:
        self.options = options
        self.style = style
        self._render = render
        self.grid = grid(options.size)
        self._face: list[str] = []
        self._first: list[int] = []
        self._shown: list[str] = []
        self._left = 0
        self._over = True

    @property
    def shown(self) -> Sequence[str]:
        """What each cell shows now (`?` hidden), row by row; for scripted players. Not to be changed."""
        return self._shown

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        """Start the board `options["instance"]`, or the one of `seed` where no instance is given."""
        instance = (options or {}).get("instance", seed)
        if instance is None:
            raise EnvSetupError("minesweeper: reset needs options={'instance': ...} or a seed")
        mines, start = opening(self.options, instance)
        self._face = faces(self.grid, mines)
        self._first = opened_by(self.grid, self._face, start)
        return self.restart()

    def restart(self) -> tuple[str, Info]:
        """Back to the board with its first cell open."""
        if not self._face:
            raise EnvSetupError("minesweeper: restart before the first reset")
        self._shown = [HIDDEN] * len(self._face)
        self._left = len(self._face) - self.options.mines
        self._over = False
        self._open(self._first)
        return self._render(self._shown), {"success": False, "invalid": False}

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        """Click one cell, `(row,column)`."""
        shown = self._shown
        cell = self.grid.index.get(action)
        if cell is None or self._over:
            return self._render(shown), 0.0, self._over, False, self._info(invalid=True)
        rewards = self.options.rewards
        if shown[cell] != HIDDEN:
            return self._render(shown), rewards.no_effect, False, False, self._info(no_effect=True)
        face = self._face[cell]
        if face == MINE:
            shown[cell] = MINE
            self._over = True
            return self._render(shown), rewards.mine, True, False, self._info()
        opened = self._open(opened_by(self.grid, self._face, cell) if face == EMPTY else (cell,))
        if self._left == 0:
            self._over = True
            reward = rewards.win
        else:
            reward = rewards.cell if opened == 1 else rewards.cascade
        return self._render(shown), reward, self._over, False, self._info()

    def _open(self, cells: Sequence[int]) -> int:
        shown, face, opened = self._shown, self._face, 0
        for cell in cells:
            if shown[cell] == HIDDEN:
                shown[cell] = face[cell]
                opened += 1
        self._left -= opened
        return opened

    def _info(self, *, invalid: bool = False, no_effect: bool = False) -> Info:
        return {"success": self._over and self._left == 0, "invalid": invalid, "no_effect": no_effect}

    def admissible_actions(self) -> tuple[str, ...] | None:
        """The hidden cells, if the option `admissible` asks for them."""
        if not self.options.admissible:
            return None
        if self._over:
            return ()
        return tuple(word for word, face in zip(self.grid.words, self._shown, strict=True) if face == HIDDEN)

"""Scout: a treasure lies beside one of a field's landmarks. Dig for it, or climb the tower and look.

Actions are a cell, `(row,column)`, to dig there, and `look`, which tells where the treasure lies, seen from a
landmark, but takes the rest of the day: the episode ends without success. So looking costs this episode and
pays in the next. Digging again in the same hole, or under a landmark, is possible and useless.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from envs.base import Info, PromptStyle, TextEnv
from envs.options import EnvSetupError
from envs.scout.field import Field, cell_words, field_of, sightings
from envs.scout.options import Options

LOOK = "look"


class Render(Protocol):
    """Writes the field: landmarks' cells, holes in order, whether the treasure was found, the sighting."""

    def __call__(
        self, landmarks: tuple[int, ...], holes: tuple[int, ...], found: bool, seen: str | None
    ) -> str: ...


class Scout(TextEnv):
    """One field at a time. See the module's docstring."""

    name: ClassVar[str] = "scout"

    def __init__(self, options: Options, style: PromptStyle, render: Render) -> None:
        self.options = options
        self.style = style
        self._render = render
        self._cells = cell_words(options.size)
        self._index = {word: cell for cell, word in enumerate(self._cells)}
        self._field: Field | None = None
        self._holes: tuple[int, ...] = ()
        self._seen: str | None = None
        self._digs = 0
        self._found = False
        self._over = True

    @property
    def field(self) -> Field:
        """The present instance, treasure included; for scripted players."""
        if self._field is None:
            raise EnvSetupError("scout: restart before the first reset")
        return self._field

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        """Start the field `options["instance"]`, or the one of `seed` where no instance is given."""
        instance = (options or {}).get("instance", seed)
        if instance is None:
            raise EnvSetupError("scout: reset needs options={'instance': ...} or a seed")
        self._field = field_of(self.options, instance)
        return self.restart()

    def restart(self) -> tuple[str, Info]:
        """Back to the morning: no holes, nothing seen."""
        self._holes, self._seen, self._digs = (), None, 0
        self._found, self._over = False, False
        return self._shown(self.field), {"success": False, "invalid": False}

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        """Dig in a cell, or look."""
        field = self.field
        cell = self._index.get(action)
        if self._over or (cell is None and action != LOOK):
            return self._shown(field), 0.0, self._over, False, {"success": self._found, "invalid": True}
        reward = 0.0
        if cell is None:
            self._seen = sightings(self.options.size, field.landmarks)[field.treasure]
            self._over = True
        else:
            self._digs += 1
            if cell not in self._holes:
                self._holes = (*self._holes, cell)
            self._found = cell == field.treasure
            self._over = self._found or self._digs >= self.options.digs
            reward = self.options.rewards.find if self._found else self.options.rewards.miss
        return self._shown(field), reward, self._over, False, {"success": self._found, "invalid": False}

    def _shown(self, field: Field) -> str:
        return self._render(field.landmarks, self._holes, self._found, self._seen)

    def admissible_actions(self) -> tuple[str, ...] | None:
        """`look` and the cells without landmark or hole, if the option `admissible` asks for them."""
        if not self.options.admissible:
            return None
        if self._over:
            return ()
        taken = {*self.field.landmarks, *self._holes}
        return (LOOK, *(word for cell, word in enumerate(self._cells) if cell not in taken))

"""Scout's scripted agent: a digger who goes from landmark to landmark, and digs first where a hint says.

Where the treasure lies can't be known before the first dig, so no hint is worth its words, and one that names
a useless cell costs a dig. A memory policy has to learn to say nothing here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from envs.base import View
from envs.scout.field import NAMES, SIDES, beside, cell_words, sightings
from envs.scout.options import Options

_PLACED = re.compile(r"([a-z]+)@(\(\d+,\d+\))")
_ROW = re.compile(r"Row \d+: (.*)")
_WORD = re.compile(r"\(\d+,\d+\)|[a-z]+-of-[a-z]+")


@dataclass(frozen=True, slots=True)
class Digger:
    """Stateless: it reads landmarks and its own digs off the view."""

    options: Options
    backwards: bool = False
    """Begin with the last landmark's south."""

    def respond(self, view: View) -> str:
        """A cell, in the form of the options' format."""
        first = view.history[0].observation if view.history else view.observation
        cells, landmarks = cell_words(self.options.size), self._landmarks(first)
        dug = {action for step in view.history for action in step.actions}
        usual = [cells[cell] for cell in sightings(self.options.size, landmarks)]
        order = [*self._told(view.hint or "", landmarks), *(reversed(usual) if self.backwards else usual)]
        cell = next((cell for cell in order if cell not in dug), cells[0])
        return cell if self.options.format == "compact" else f"<action>{cell}</action>"

    def _landmarks(self, observation: str) -> tuple[int, ...]:
        """Their cells, in the order of their names."""
        if self.options.format == "compact":
            cells = cell_words(self.options.size)
            at = {name: cells.index(cell) for name, cell in _PLACED.findall(observation)}
        else:
            signs = [sign for row in _ROW.findall(observation) for sign in row.split()]
            at = {name: signs.index(name[0].upper()) for name in NAMES[: self.options.landmarks]}
        return tuple(at[name] for name in NAMES[: self.options.landmarks])

    def _told(self, hint: str, landmarks: tuple[int, ...]) -> list[str]:
        """The cells that a hint names, in its order."""
        cells, named = cell_words(self.options.size), NAMES[: len(landmarks)]
        found = []
        for word in _WORD.findall(hint):
            side, _, name = word.partition("-of-")
            if word in cells:
                found.append(word)
            elif side in SIDES and name in named:
                cell = beside(self.options.size, landmarks[named.index(name)], side)
                found += [] if cell is None else [cells[cell]]
        return found

"""The compact format: a prompt of 6-13 words and an answer of exactly one, for small word-level models.

    first attempt     Try 1 now tree@(2,3) rock@(1,1) well@(4,2) move:                       -> look
    later attempts    known: east-of-tree Try 2 now tree@(2,3) rock@(1,1) well@(4,2) move:   -> (2,4)
                      known: (1,2) Try 2 now tree@(2,3) rock@(1,1) well@(4,2) move:          -> (2,4)
    reflection        Try 1 ended tree@(2,3) rock@(1,1) well@(4,2) east-of-tree Note:        -> east-of-tree

An observation is the landmarks with their cells, then the holes dug, then what was seen from the tower, or
`found`. The `known:` line stands there whenever the view has a memory, tips or a hint: the holes and
sightings in them, without repetition, in order; `none` if there are none. Attempts are counted 1 .. 8; later
ones are all called 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from envs import compact
from envs.base import EpisodeRecord, ParsedAction
from envs.compact import MOST_ATTEMPTS
from envs.scout.env import LOOK
from envs.scout.field import NAMES, SIDES, cell_words
from envs.scout.options import Options

FOUND = "found"


@lru_cache(maxsize=16)
def notes(size: int) -> tuple[str, ...]:
    """The words that can be remembered: cells (where nothing was found) and sightings."""
    return (*cell_words(size), *(f"{side}-of-{name}" for name in NAMES for side in SIDES))


def vocabulary(options: Options) -> list[str]:
    """Every word of the format, each once. 4 x 4 with 3 landmarks: 93 words."""
    size, names = options.size, NAMES[: options.landmarks]
    frame = ["Try", "now", "ended", "move:", "Note:", "known:", "none", FOUND, LOOK]
    attempts = [str(n) for n in range(1, MOST_ATTEMPTS + 1)]
    seen = [f"{side}-of-{name}" for name in names for side in SIDES]
    placed = [f"{name}@{cell}" for name in names for cell in cell_words(size)]
    return [*frame, *attempts, *cell_words(size), *seen, *placed]


@dataclass(frozen=True, slots=True)
class Render:
    """Writes a field as words. Picklable."""

    size: int

    def __call__(
        self, landmarks: tuple[int, ...], holes: tuple[int, ...], found: bool, seen: str | None
    ) -> str:
        cells = cell_words(self.size)
        words = [f"{name}@{cells[at]}" for name, at in zip(NAMES, landmarks, strict=False)]
        words += [cells[hole] for hole in holes]
        words += [FOUND] if found else []
        words += [seen] if seen else []
        return " ".join(words)


@dataclass(frozen=True)
class CompactStyle(compact.CompactStyle):
    """See the module's docstring."""

    size: int
    label: ClassVar[str] = "known"
    ended: ClassVar[str] = "ended"
    question: ClassVar[str] = "Note:"

    def noted(self, text: str) -> list[str]:
        """Its holes and sightings."""
        known = notes(self.size)
        return [word for word in text.split() if word in known]

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The answer if it is one cell word or `look` and nothing else, else invalid."""
        word = response.strip()
        if word == LOOK or word in cell_words(self.size):
            return ParsedAction((word,))
        return ParsedAction((), invalid=True)

    def summarise(self, episode: EpisodeRecord) -> str:
        """The holes that were dug in vain, and what was seen from the tower."""
        return " ".join(self.noted(episode.final_observation))

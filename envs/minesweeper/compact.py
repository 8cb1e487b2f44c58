"""The compact format: a prompt of 7-11 words and an answer of exactly one, for small word-level models.

    first attempt     Try 1 now ???? 2??? ???? ???? move:                     -> (3,2)
    later attempts    mines: (3,2) (1,4) Try 3 now ???? 2??? ???? ???? move:  -> (2,2)
                      mines: none Try 2 now ???? 2??? ???? ???? move:         -> (2,2)
    reflection        Try 1 lost ???? 2*?? ???? ???? Reflection:              -> (2,2)

Words are separated by single blanks; `<bos>` is the tokenizer's matter. A board is its rows from above, one
word a row (rows of more than four cells: two words). Attempts are counted 1 .. 8; later ones are all called
8.

The `mines:` line stands there whenever the view has a memory, tips or a hint. It lists, without repetition
and in order, every cell word in them: the summaries (the mine that ended an attempt, or nothing), the
reflections (one cell word), the tips and the hint.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from envs import compact
from envs.base import EpisodeRecord, ParsedAction
from envs.minesweeper.board import MINE, grid

_CELL = re.compile(r"\(\d+,\d+\)")


def piece_widths(size: int) -> tuple[int, ...]:
    """The lengths of the words that a row is written in: one word up to four cells, else two."""
    return (size,) if size <= 4 else (size - size // 2, size // 2)


def renderer(size: int) -> Render:
    """The function that writes a board (the shown faces, row by row) as its words."""
    spans, at = [], 0
    for _ in range(size):
        for width in piece_widths(size):
            spans.append(slice(at, at + width))
            at += width
    return Render(tuple(spans))


@dataclass(frozen=True, slots=True)
class Render:
    """Writes a board as words. Picklable."""

    spans: tuple[slice, ...]

    def __call__(self, shown: Sequence[str]) -> str:
        text = "".join(shown)
        return " ".join([text[span] for span in self.spans])


@dataclass(frozen=True)
class CompactStyle(compact.CompactStyle):
    """See the module's docstring."""

    size: int
    label: ClassVar[str] = "mines"
    ended: ClassVar[str] = "lost"
    question: ClassVar[str] = "Reflection:"

    def noted(self, text: str) -> list[str]:
        """Its cell words."""
        known = grid(self.size).index
        return [word for word in _CELL.findall(text) if word in known]

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The answer if it is one cell word and nothing else, else invalid."""
        word = response.strip()
        if word in grid(self.size).index:
            return ParsedAction((word,))
        return ParsedAction((), invalid=True)

    def summarise(self, episode: EpisodeRecord) -> str:
        """The word of the mine that was hit, or nothing if the attempt ended otherwise."""
        at = episode.final_observation.replace(" ", "").find(MINE)
        return grid(self.size).words[at] if at >= 0 else ""

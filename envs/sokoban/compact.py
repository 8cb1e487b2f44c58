"""The compact format: a prompt of 6-11 words and an answer of exactly one, for small word-level models.

    first attempt     Try 1 now _P_ _X_ _O_ move:                 -> rdl
    later attempts    tried: rdl u Try 3 now _P_ _X_ _O_ move:    -> d
                      tried: none Try 2 now _P_ _X_ _O_ move:     -> d
    reflection        Try 1 lost __X _P_ _O_ Note:                -> rd

A room is its rows from above without the outer walls, one word a row, in the signs of `room.py`. A word of
moves is their initials (`rd`: right, then down), at most `max_moves_per_turn`. Attempts are counted 1 .. 8;
later ones are all called 8.

The `tried:` line stands there whenever the view has a memory, tips or a hint. It lists, without repetition
and in order, every word of moves in them: the summaries (the first word of an attempt that failed), the
reflections (one word of moves), the tips and the hint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import ClassVar

from envs import compact
from envs.base import EpisodeRecord, ParsedAction
from envs.compact import MOST_ATTEMPTS
from envs.sokoban.options import Options
from envs.sokoban.room import BOX, BOX_ON, FLOOR, MOVES, PLAYER, PLAYER_ON, TARGET, WALL, Room, State, rows

_NAMES = {name[0]: name for name in MOVES}


@lru_cache(maxsize=8)
def move_words(most: int) -> tuple[str, ...]:
    """Every word of up to `most` moves: u, d, l, r, uu, ud, …"""
    return tuple("".join(word) for n in range(1, most + 1) for word in product(_NAMES, repeat=n))


def word_of(moves: Sequence[str]) -> str:
    """`("right", "down")` -> `rd`."""
    return "".join(name[0] for name in moves)


def vocabulary(options: Options) -> list[str]:
    """Every word of the format, each once. Rooms of size 6 with one box and 3 moves a turn: 563 words."""
    frame = ["Try", "now", "lost", "move:", "tried:", "none", "Note:"]
    attempts = [str(n) for n in range(1, MOST_ATTEMPTS + 1)]
    signs = (WALL, FLOOR, TARGET, BOX, BOX_ON, PLAYER, PLAYER_ON)

    def possible(row: tuple[str, ...]) -> bool:
        def count(*of: str) -> int:
            return sum(map(row.count, of))

        boxes = options.boxes
        few = count(BOX, BOX_ON) <= boxes and count(TARGET, BOX_ON, PLAYER_ON) <= boxes
        return few and count(PLAYER, PLAYER_ON) <= 1

    made = ["".join(row) for row in product(signs, repeat=options.size - 2) if possible(row)]
    return [*frame, *attempts, *move_words(options.max_moves_per_turn), *made]


def written(place: Room, state: State) -> str:
    """The room without its outer walls."""
    return " ".join(row[1:-1] for row in rows(place, state)[1:-1])


@dataclass(frozen=True)
class CompactStyle(compact.CompactStyle):
    """See the module's docstring."""

    max_moves: int
    label: ClassVar[str] = "tried"
    ended: ClassVar[str] = "lost"
    question: ClassVar[str] = "Note:"

    def noted(self, text: str) -> list[str]:
        """Its words of moves."""
        known = move_words(self.max_moves)
        return [word for word in text.split() if word in known]

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The moves of the answer if it is one word of moves and nothing else, else invalid."""
        word = response.strip()
        if word in move_words(self.max_moves):
            return ParsedAction(tuple(_NAMES[letter] for letter in word))
        return ParsedAction((), invalid=True)

    def summarise(self, episode: EpisodeRecord) -> str:
        """The attempt's first word of moves, or nothing if it had none."""
        return next((word_of(step.actions) for step in episode.steps if step.actions), "")

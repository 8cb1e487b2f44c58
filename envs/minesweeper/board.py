"""The rules of MineSweeper over cell numbers 0 .. size²-1 (row by row), without any text format.

A *face* is what a cell shows when it is open: `.` (no mine around), `1` .. `8`, or `*` (a mine).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

HIDDEN, EMPTY, MINE = "?", ".", "*"


@dataclass(frozen=True, slots=True)
class Grid:
    """The geometry of a square board. Cells are called `(row,column)`, counted from 1."""

    size: int
    near: tuple[tuple[int, ...], ...]
    """The up to eight neighbours of each cell."""
    words: tuple[str, ...]
    """The name of each cell."""
    index: dict[str, int]
    """From a cell's name to its number."""
    symmetries: tuple[tuple[int, ...], ...]
    """The eight rotations and reflections: `symmetries[k][cell]` is where the cell goes."""


@lru_cache(maxsize=32)
def grid(size: int) -> Grid:
    """The geometry of a board of size × size cells."""
    places = [(row, col) for row in range(size) for col in range(size)]
    around = [(dr, dc) for dr in (-1, 0, 1) for dc in (-1, 0, 1) if (dr, dc) != (0, 0)]
    near = tuple(
        tuple((r + dr) * size + c + dc for dr, dc in around if 0 <= r + dr < size and 0 <= c + dc < size)
        for r, c in places
    )
    words = tuple(f"({r + 1},{c + 1})" for r, c in places)
    last = size - 1
    turns: list[tuple[int, ...]] = []
    for flip in (False, True):
        for quarter in range(4):
            moved = []
            for r, c in places:
                if flip:
                    r, c = c, r
                for _ in range(quarter):
                    r, c = c, last - r
                moved.append(r * size + c)
            turns.append(tuple(moved))
    return Grid(size, near, words, {word: cell for cell, word in enumerate(words)}, tuple(turns))


def faces(board: Grid, mines: Iterable[int]) -> list[str]:
    """The face of every cell."""
    mined = set(mines)
    counts = [0] * len(board.words)
    for mine in mined:
        for cell in board.near[mine]:
            counts[cell] += 1
    return [MINE if cell in mined else str(n) if n else EMPTY for cell, n in enumerate(counts)]


def opened_by(board: Grid, face: Sequence[str], cell: int) -> list[int]:
    """The cells that a click on this safe cell opens on an untouched board: the cell alone, or, from a cell
    without mines around, its whole zero-connected region with the numbers along its border."""
    if face[cell] != EMPTY:
        return [cell]
    opened, seen = [cell], {cell}
    for at in opened:  # grows while it is walked through
        if face[at] == EMPTY:
            for other in board.near[at]:
                if other not in seen:
                    seen.add(other)
                    opened.append(other)
    return opened


def clicks_to_win(board: Grid, face: Sequence[str], opened: Iterable[int]) -> int:
    """The least number of clicks that opens all safe cells from here, cascades counted; 0 on a solved board.

    Each hidden zero-connected region needs one click, and so does each hidden number that borders on no zero
    (a number that does is opened by the zero's cascade).
    """
    done = set(opened)
    clicks = 0
    for cell, shown in enumerate(face):
        if shown == EMPTY and cell not in done:
            clicks += 1
            done.update(opened_by(board, face, cell))
    return clicks + sum(1 for cell, shown in enumerate(face) if shown != MINE and cell not in done)

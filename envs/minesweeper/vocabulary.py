"""Every word that the compact format can produce: enough to make a word-level tokenizer from."""

from __future__ import annotations

from itertools import product

from envs.compact import MOST_ATTEMPTS
from envs.minesweeper.board import EMPTY, HIDDEN, MINE, grid
from envs.minesweeper.compact import piece_widths


def words(size: int, mines: int = 3) -> list[str]:
    """All words for boards of this size with up to this many mines, each once, in a fixed order.

    Frame words first, then the cells, then every row word over `? * .` and the numbers with at most one `*`
    (an episode ends on its first mine). Special tokens are the model maker's. 4×4 with 3 mines: 1,156 words.
    """
    frame = ["Try", "now", "lost", "move:", "mines:", "none", "Reflection:"]
    attempts = [str(n) for n in range(1, MOST_ATTEMPTS + 1)]
    letters = [HIDDEN, MINE, EMPTY, *(str(n) for n in range(1, min(mines, 8) + 1))]
    rows = [
        "".join(row)
        for width in sorted(set(piece_widths(size)))
        for row in product(letters, repeat=width)
        if row.count(MINE) <= 1
    ]
    return [*frame, *attempts, *grid(size).words, *rows]

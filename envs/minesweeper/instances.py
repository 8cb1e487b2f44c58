"""Which boards exist, how one is addressed, and which are held out.

An instance is a text that names its mines and the cell opened first, `(1,1)(2,3)(4,4)@(3,2)`, or a seed (an
int), from which both are drawn. Few boards (4×4 with 3 mines: 3,488) are enumerated, one instance for each
pair (mines, set of opened cells); many are addressed by seed: 0 .. 2¹⁶-1 train, 2¹⁶ .. 2¹⁷-1 eval.

The split holds out whole *symmetry classes*, so that no board of `eval` is a rotation or reflection of one of
`train`, for enumerated boards and for seeds alike (a seed draws until its board belongs to the seed's split).
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import comb
from zlib import crc32

from envs.base import Instance
from envs.minesweeper.board import MINE, Grid, clicks_to_win, faces, grid, opened_by
from envs.minesweeper.options import Options
from envs.options import EnvSetupError

SEEDS = 2**16
"""Number of seeds in each split."""
ENUMERABLE = 100_000
"""Boards are enumerated up to this number of (mines, first cell) pairs."""
_TRIES = 10_000
_NAME = re.compile(r"((?:\(\d+,\d+\))+)@(\(\d+,\d+\))")
_CELL = re.compile(r"\(\d+,\d+\)")

Opening = tuple[tuple[int, ...], int]
"""Mines (ascending) and the cell opened first."""


def split_key(board: Grid, mines: Sequence[int], opened: Sequence[int]) -> bytes:
    """The symmetry class of (mines, set of opened cells), as bytes.

    It is the ASCII text of Python's `repr` of the pair (mines, opened), each an ascending tuple of cell
    numbers counted from 0 row by row, least over the eight symmetries; for instance `((0, 1, 5), (10, 11, 14,
    15))`.
    """
    images = (
        (tuple(sorted(map(move.__getitem__, mines))), tuple(sorted(map(move.__getitem__, opened))))
        for move in board.symmetries
    )
    return repr(min(images)).encode("ascii")


def held_out(key: bytes) -> bool:
    """Whether a symmetry class belongs to `eval`: a fifth of them do."""
    return crc32(key) % 5 == 0


def instances(options: Options, split: str) -> Sequence[Instance]:
    """All instances of a split, always in the same order."""
    cells = options.size**2
    if comb(cells, options.mines) * cells > ENUMERABLE:
        return range(SEEDS) if split == "train" else range(SEEDS, 2 * SEEDS)
    return _enumerated(options.size, options.mines, options.min_clicks, options.max_clicks)[split == "eval"]


@lru_cache(maxsize=16)
def _enumerated(
    size: int, mines: int, min_clicks: int, max_clicks: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    board = grid(size)
    parts: tuple[list[str], list[str]] = ([], [])
    for mined in combinations(range(size**2), mines):
        face = faces(board, mined)
        known: set[tuple[int, ...]] = set()
        for start in range(size**2):
            if face[start] == MINE:
                continue
            opened = tuple(sorted(opened_by(board, face, start)))
            if opened in known:  # another cell of the same region: the same game
                continue
            known.add(opened)
            if _accepted(clicks_to_win(board, face, opened), min_clicks, max_clicks):
                parts[held_out(split_key(board, mined, opened))].append(_name(board, mined, start))
    return tuple(parts[0]), tuple(parts[1])


def _accepted(clicks: int, least: int, most: int) -> bool:
    return clicks >= least and (most == 0 or clicks <= most)


def _name(board: Grid, mines: Sequence[int], start: int) -> str:
    return "".join(board.words[mine] for mine in mines) + "@" + board.words[start]


def opening(options: Options, instance: Instance) -> Opening:
    """The mines and the first cell of an instance. Raises EnvSetupError naming one that doesn't exist."""
    if isinstance(instance, int):
        return _drawn(options, instance)
    board = grid(options.size)
    match = _NAME.fullmatch(instance)
    try:
        if match is None:
            raise KeyError(instance)
        mines = tuple(sorted({board.index[word] for word in _CELL.findall(match[1])}))
        start = board.index[match[2]]
    except KeyError:
        mines, start = (), 0
    if len(mines) != options.mines or start in mines:
        raise EnvSetupError(
            f"minesweeper has no instance {instance!r} at size={options.size}, mines={options.mines}: "
            "it must name that many mines and a safe first cell, as in (1,1)(2,3)(3,3)@(3,2)"
        )
    return mines, start


def _drawn(options: Options, seed: int) -> Opening:
    """Mines and first cell, both from the seed alone."""
    if not 0 <= seed < 2 * SEEDS:
        raise EnvSetupError(f"minesweeper has no instance {seed}: seeds go from 0 to {2 * SEEDS - 1}")
    board = grid(options.size)
    rng = random.Random(seed)
    for _ in range(_TRIES):
        start, *mined = rng.sample(range(options.size**2), options.mines + 1)
        mines = tuple(sorted(mined))
        face = faces(board, mines)
        opened = opened_by(board, face, start)
        clicks = clicks_to_win(board, face, opened)
        if not _accepted(clicks, options.min_clicks, options.max_clicks):
            continue
        if held_out(split_key(board, mines, opened)) == (seed >= SEEDS):
            return mines, start
    raise EnvSetupError(
        f"minesweeper: no board of size={options.size}, mines={options.mines} within "
        f"min_clicks={options.min_clicks}, max_clicks={options.max_clicks} in {_TRIES} draws of seed {seed}"
    )

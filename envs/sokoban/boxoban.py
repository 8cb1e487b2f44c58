"""Boxoban's published levels: rooms of 10 x 10 with four boxes, about 1,000 to a file.

A file of the data directory is `boxoban/SET_NNN.txt.gz`, where SET is a set's name with `/`
written `_`. A level is addressed as `boxoban/FILE/INDEX`, as in `boxoban/unfiltered_train_000/17`.
The splits are the published ones; the levels are known to be solvable, their shortest solutions aren't
known.
"""

from __future__ import annotations

import gzip
import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import overload

from envs.data import data_dir, data_file
from envs.options import EnvSetupError
from envs.sokoban.generator import Puzzle
from envs.sokoban.room import parse

SIZE, BOXES = 10, 4
SOLVER_BUDGET = 500
"""States that a search for any solution visits before it gives up and takes the room as solvable."""
_SIGNS = str.maketrans({" ": "_", ".": "O", "$": "X", "*": "√", "@": "P", "+": "S"})
_ADDRESS = re.compile(r"boxoban/(\w+)/(\d+)")


class Levels(Sequence[str]):
    """The addresses of all levels of some files, in order, made when asked for."""

    def __init__(self, files: Sequence[tuple[str, int]]) -> None:
        self._names = [name for name, _ in files]
        self._ends = list(accumulate(count for _, count in files))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        file = bisect_right(self._ends, at)
        return f"boxoban/{self._names[file]}/{at - (self._ends[file - 1] if file else 0)}"


def levels(wanted: str) -> Levels:
    """All levels of a set (`medium/valid`). Raises `EnvSetupError` if no file of it is there."""
    stem = wanted.replace("/", "_")
    names = sorted(path.name.removesuffix(".txt.gz") for path in _directory().glob(f"{stem}_[0-9]*.txt.gz"))
    if not names:
        data_file("sokoban", f"boxoban/{stem}_000.txt.gz")  # raises, saying how to get it
    return Levels([(name, len(_pictures(_directory() / f"{name}.txt.gz"))) for name in names])


def level(address: object) -> Puzzle:
    """The level at an address. Raises `EnvSetupError` naming it if there is none."""
    found = _ADDRESS.fullmatch(str(address))
    path = _directory() / f"{found[1]}.txt.gz" if found else None
    if found is None or path is None or not path.is_file() or int(found[2]) >= len(_pictures(path)):
        raise EnvSetupError(
            f"sokoban has no instance {address!r}: Boxoban's levels are boxoban/FILE/INDEX, for example "
            f"boxoban/unfiltered_train_000/17, with files of {_directory()}"
        )
    return _puzzle(path, int(found[2]))


def _directory() -> Path:
    return data_dir() / "boxoban"


@lru_cache(maxsize=1024)  # a group's members play the same level
def _puzzle(path: Path, index: int) -> Puzzle:
    place, start = parse(list(_pictures(path)[index]))
    return Puzzle(place, start, ())


@lru_cache(maxsize=64)
def _pictures(path: Path) -> tuple[tuple[str, ...], ...]:
    """The rows of each level, in our signs."""
    try:
        text = gzip.decompress(path.read_bytes()).decode("ascii")
    except (OSError, EOFError, ValueError) as error:
        raise EnvSetupError(f"{path} can't be read ({error}): fetch it again") from None
    found: list[tuple[str, ...]] = []
    for block in re.split(r"^;.*\n", text, flags=re.MULTILINE)[1:]:
        rows = tuple(row.translate(_SIGNS) for row in block.rstrip("\n").split("\n") if row)
        signs = "".join(rows)
        whole = (
            len(rows) == SIZE and all(len(row) == SIZE for row in rows) and not set(signs) - set("#_OX√PS")
        )
        if not whole or sum(map(signs.count, "PS")) != 1 or sum(map(signs.count, "X√")) != BOXES:
            raise EnvSetupError(
                f"{path}: level {len(found)} isn't a room of {SIZE} x {SIZE} with {BOXES} boxes"
            )
        found.append(rows)
    return tuple(found)

"""The field of Scout: cells, landmarks, what lies beside what; and which fields exist and are held out.

An instance is a seed: 0 .. 2¹⁶-1 train, 2¹⁶ .. 2¹⁷-1 eval. A seed draws landmarks until their *layout*
belongs to its split, then a cell beside one of them for the treasure. The split holds out whole symmetry
classes of layouts, so no field of `eval` has the landmarks of one of `train`, rotated or reflected or not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

from envs.base import Instance
from envs.options import EnvSetupError
from envs.scout.options import Options

SEEDS = 2**16
"""Number of seeds in each split."""
NAMES = ("tree", "rock", "well", "barn")
"""The landmarks, in the order in which the tower's look-out thinks of them."""
SIDES = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
_TRIES = 1000


@dataclass(frozen=True, slots=True)
class Field:
    """One instance. Cells are numbered from 0 row by row."""

    landmarks: tuple[int, ...]
    """The cell of each landmark, in the order of `NAMES`."""
    treasure: int


@lru_cache(maxsize=16)
def cell_words(size: int) -> tuple[str, ...]:
    """The name of each cell: `(row,column)`, counted from 1."""
    return tuple(f"({row},{col})" for row in range(1, size + 1) for col in range(1, size + 1))


def beside(size: int, cell: int, side: str) -> int | None:
    """The cell on that side of a cell, or None at the edge."""
    row, col = (at + step for at, step in zip(divmod(cell, size), SIDES[side], strict=True))
    return row * size + col if 0 <= row < size and 0 <= col < size else None


def sightings(size: int, landmarks: Sequence[int]) -> dict[int, str]:
    """Each cell where a treasure may lie, and how the tower's look-out calls it: `east-of-tree`.

    A cell beside several landmarks is called after the first of them.
    """
    found: dict[int, str] = {}
    for name, at in zip(NAMES, landmarks, strict=False):
        for side in SIDES:
            cell = beside(size, at, side)
            if cell is not None and cell not in landmarks:
                found.setdefault(cell, f"{side}-of-{name}")
    return found


def split_key(size: int, landmarks: Sequence[int]) -> bytes:
    """The symmetry class of a layout, as bytes: the ASCII text of Python's `repr` of the tuple of the
    landmarks' cells, least over the eight symmetries of the square."""
    last = size - 1
    images = []
    places = [divmod(cell, size) for cell in landmarks]
    for flip in (False, True):
        for quarter in range(4):
            image = []
            for row, col in places:
                if flip:
                    row, col = col, row
                for _ in range(quarter):
                    row, col = col, last - row
                image.append(row * size + col)
            images.append(tuple(image))
    return repr(min(images)).encode("ascii")


def held_out(key: bytes) -> bool:
    """Whether a class of layouts belongs to `eval`: a fifth of them do."""
    return crc32(key) % 5 == 0


def instances(options: Options, split: str) -> Sequence[Instance]:
    """All seeds of a split."""
    return range(SEEDS) if split == "train" else range(SEEDS, 2 * SEEDS)


def field_of(options: Options, instance: Instance) -> Field:
    """Landmarks and treasure of an instance, from its seed alone. Raises EnvSetupError naming a wrong one."""
    if not isinstance(instance, int) or not 0 <= instance < 2 * SEEDS:
        raise EnvSetupError(f"scout has no instance {instance!r}: seeds go from 0 to {2 * SEEDS - 1}")
    rng, size = random.Random(instance), options.size
    for _ in range(_TRIES):
        landmarks = tuple(rng.sample(range(size**2), options.landmarks))
        if held_out(split_key(size, landmarks)) == (instance >= SEEDS):
            return Field(landmarks, rng.choice(sorted(sightings(size, landmarks))))
    raise EnvSetupError(
        f"scout: no layout of size={size}, landmarks={options.landmarks} for seed {instance} in {_TRIES} "
        "draws: more landmarks or a larger field give its split more layouts"
    )

"""Rooms from seeds: a random floor, the boxes on their targets, and play backwards from there.

Every room is proved solvable: its shortest solution is known, and within the options' bounds. A room depends
on its options and seed alone. Seeds 0 .. 2¹⁶-1 are `train`, 2¹⁶ .. 2¹⁷-1 are `eval`; a seed draws until its
room's symmetry class belongs to its split, so that no room of one split is a rotation or reflection of one of
the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

import numpy as np

from envs.options import EnvSetupError
from envs.sokoban.options import Options
from envs.sokoban.room import NOWHERE, Room, State, cells, room, rows
from envs.sokoban.solver import shortest

SEEDS = 2**16
"""Number of seeds in each split."""
CANDIDATES = 3
"""Rooms that a seed makes; it keeps the one with the longest solution, for random rooms tend to be easy."""
_TRIES = 5_000


@dataclass(frozen=True, slots=True)
class Puzzle:
    """A room, its start, and a shortest solution as directions (empty for a published level)."""

    room: Room
    start: State
    solution: tuple[int, ...]


def puzzle(options: Options, seed: int) -> Puzzle:
    """The puzzle of a seed. Raises EnvSetupError if the seed doesn't exist or no room fits the bounds."""
    if not isinstance(seed, int) or not 0 <= seed < 2 * SEEDS:
        raise EnvSetupError(f"sokoban has no instance {seed!r}: seeds go from 0 to {2 * SEEDS - 1}")
    return _puzzle(options.size, options.boxes, options.min_solution, options.max_solution, seed)


@lru_cache(maxsize=1024)  # a group's members play the same seed
def _puzzle(size: int, boxes: int, least: int, most: int, seed: int) -> Puzzle:
    rng = np.random.Generator(np.random.PCG64(seed))
    found: list[Puzzle] = []
    for _ in range(_TRIES):
        if len(found) == CANDIDATES:
            break
        floor = _carve(rng, size, boxes)
        place, start = _play_backwards(rng, size, floor, boxes)
        if held_out(split_key(place, start)) != (seed >= SEEDS):
            continue
        solution = shortest(place, start, most)
        if solution is not None and len(solution) >= least:
            found.append(Puzzle(place, start, tuple(solution)))
    if found:
        return max(found, key=lambda made: len(made.solution))
    raise EnvSetupError(
        f"sokoban: no room of size={size}, boxes={boxes} with a shortest solution of {least} to {most} moves "
        f"in {_TRIES} draws of seed {seed}"
    )


def split_key(place: Room, start: State) -> bytes:
    """The symmetry class of a room: its rows joined by `/` as UTF-8, least over the eight symmetries."""
    picture = rows(place, start)
    images = []
    for _ in range(4):
        picture = ["".join(column) for column in zip(*picture[::-1], strict=True)]
        images += ["/".join(picture), "/".join(row[::-1] for row in picture)]
    return min(images).encode()


def held_out(key: bytes) -> bool:
    """Whether a symmetry class belongs to `eval`: a fifth of them do."""
    return crc32(key) % 5 == 0


def _carve(rng: np.random.Generator, size: int, boxes: int) -> int:
    """A connected floor: the trail of a random walk that is one or two cells wide."""
    inner = size - 2
    wanted = max(2 * boxes + 3, int(inner * inner * rng.uniform(0.5, 0.85)))
    row, col = rng.integers(1, inner + 1, 2).tolist()
    floor: int = 1 << row * size + col
    step = (0, 1)
    while floor.bit_count() < wanted:
        turn, wide = rng.random(2).tolist()
        if turn < 0.4:
            step = ((0, 1), (1, 0), (0, -1), (-1, 0))[int(turn * 10)]
        row = min(max(row + step[0], 1), inner)
        col = min(max(col + step[1], 1), inner)
        floor |= 1 << row * size + col
        if wide < 0.5:  # a second cell beside the trail gives a box room to be pushed around
            side = (row + step[1], col + step[0])
            if 1 <= side[0] <= inner and 1 <= side[1] <= inner:
                floor |= 1 << side[0] * size + side[1]
        elif wide > 0.95:
            step = (-step[0], -step[1])
    return floor


def _play_backwards(rng: np.random.Generator, size: int, floor: int, boxes: int) -> tuple[Room, State]:
    """From all boxes on their targets, walk and pull at random; the state that is furthest from solved."""
    free = list(cells(floor))
    *targets, player = rng.choice(free, boxes + 1, replace=False).tolist()
    on = sum(1 << target for target in targets)
    place = room(size, floor, on)
    home = list(targets)
    at = list(targets)
    boxed = on
    best, best_state = -1, (player, on)
    draws = rng.integers(0, 16, 30 * boxes + 10 * size).tolist()
    for draw in draws:
        direction, pull = draw & 3, draw >> 2
        ahead = place.next[player][direction]
        if ahead == NOWHERE or boxed >> ahead & 1:
            continue
        behind = place.next[player][direction ^ 1]
        if pull and behind != NOWHERE and boxed >> behind & 1:
            at[at.index(behind)] = player
            boxed ^= (1 << behind) | (1 << player)
            far = _distance(size, at, home) + 4 * (boxed & ~on).bit_count()
        else:
            far = -1
        player = ahead
        if far > best:
            best, best_state = far, (player, boxed)
    return place, best_state


def _distance(size: int, at: list[int], home: list[int]) -> int:
    return sum(abs(a // size - b // size) + abs(a % size - b % size) for a, b in zip(at, home, strict=True))

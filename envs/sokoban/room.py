"""A room and its rules. A cell is its number, row by row; a set of cells is an int with these bits.

Signs: `#` wall, `_` floor, `O` target, `X` box, `√` box on a target, `P` player, `S` player on a target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

MOVES = ("up", "down", "left", "right")
WALL, FLOOR, TARGET, BOX, BOX_ON, PLAYER, PLAYER_ON = "#_OX√PS"
NOWHERE = -1

State = tuple[int, int]
"""The player's cell and the set of the boxes' cells."""


@dataclass(frozen=True, slots=True)
class Room:
    """What doesn't move. `next[cell][direction]` is the floor cell there, or `NOWHERE` before a wall."""

    size: int
    floor: int
    targets: int
    next: tuple[tuple[int, int, int, int], ...]
    live: int
    """The cells from which a box can still be pushed to some target if it were alone."""


def cells(bits: int) -> Iterator[int]:
    """The members of a set of cells, ascending."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def room(size: int, floor: int, targets: int) -> Room:
    """The room with this floor (inside its outer walls) and these targets on it."""
    steps = (-size, size, -1, 1)  # no wrap-around: the outer cells are walls
    near = [
        tuple(at + step if floor >> at & 1 and floor >> at + step & 1 else NOWHERE for step in steps)
        for at in range(size * size)
    ]
    live = targets
    reached = list(cells(targets))
    for at in reached:  # pull a lone box backwards, away from the targets; grows while it is walked through
        for direction in range(4):
            before = near[at][direction]
            if before != NOWHERE and not live >> before & 1 and near[before][direction] != NOWHERE:
                live |= 1 << before
                reached.append(before)
    return Room(size, floor, targets, tuple((a, b, c, d) for a, b, c, d in near), live)


def moved(place: Room, state: State, direction: int) -> State | None:
    """The state after a move, which pushes a box if one is ahead; None if the move is blocked."""
    player, boxes = state
    ahead = place.next[player][direction]
    if ahead == NOWHERE:
        return None
    if not boxes >> ahead & 1:
        return ahead, boxes
    beyond = place.next[ahead][direction]
    if beyond == NOWHERE or boxes >> beyond & 1:
        return None
    return ahead, boxes ^ (1 << ahead) ^ (1 << beyond)


def solved(place: Room, state: State) -> bool:
    """Whether every box is on a target."""
    return state[1] & ~place.targets == 0


def rows(place: Room, state: State) -> list[str]:
    """The signs of each row."""
    player, boxes = state
    signs = []
    for at in range(place.size**2):
        on = place.targets >> at & 1
        if not place.floor >> at & 1:
            signs.append(WALL)
        elif at == player:
            signs.append(PLAYER_ON if on else PLAYER)
        elif boxes >> at & 1:
            signs.append(BOX_ON if on else BOX)
        else:
            signs.append(TARGET if on else FLOOR)
    return ["".join(signs[i : i + place.size]) for i in range(0, place.size**2, place.size)]


def parse(picture: list[str]) -> tuple[Room, State]:
    """The room and state that `rows` would write so."""
    signs = "".join(picture)

    def where(wanted: str) -> int:
        return sum(1 << at for at, sign in enumerate(signs) if sign in wanted)

    place = room(len(picture), where("_OX√PS"), where("O√S"))
    return place, (next(cells(where("PS"))), where("X√"))

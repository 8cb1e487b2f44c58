"""Two searches: the shortest solution in moves, and whether any solution exists.

Both prune a box pushed to a cell from which even a lone box reaches no target. Both stop at a budget of
states.
"""

from __future__ import annotations

from functools import lru_cache

from envs.sokoban.room import NOWHERE, Room, State, cells, moved, solved

BUDGET = 200_000
"""Most states that a search visits."""


def shortest(place: Room, start: State, limit: int, budget: int = BUDGET) -> list[int] | None:
    """The directions of a shortest solution of at most `limit` moves, by breadth-first search.

    None if there is none, or if the budget was spent before one was found.
    """
    if solved(place, start):
        return []
    came: dict[State, tuple[State, int]] = {start: (start, NOWHERE)}
    frontier = [start]
    for _ in range(limit):
        ahead: list[State] = []
        for state in frontier:
            for direction in range(4):
                after = moved(place, state, direction)
                if after is None or after in came:
                    continue
                boxes = after[1]
                if boxes != state[1]:
                    if boxes & ~place.live:
                        continue
                    if solved(place, after):
                        came[after] = (state, direction)
                        return _path(came, after)
                came[after] = (state, direction)
                ahead.append(after)
        if not ahead or len(came) > budget:
            return None
        frontier = ahead
    return None


def _path(came: dict[State, tuple[State, int]], state: State) -> list[int]:
    path = []
    while came[state][1] != NOWHERE:
        state, direction = came[state]
        path.append(direction)
    return path[::-1]


def solvable(place: Room, state: State, budget: int = BUDGET) -> bool | None:
    """Whether a solution of any length exists; None if the budget was spent before that was known."""
    reach = _reach(place, state)
    return _solvable(place, next(cells(reach)), state[1], budget)


@lru_cache(maxsize=16384)
def _solvable(place: Room, player: int, boxes: int, budget: int) -> bool | None:
    # Searches over pushes: two states with equal boxes whose players can reach each other are the same.
    if boxes & ~place.live:
        return False
    if solved(place, (player, boxes)):
        return True
    first = (_reach(place, (player, boxes)), boxes)
    seen = {first}
    waiting = [first]
    while waiting:
        reach, boxes = waiting.pop()
        for box in cells(boxes):
            for direction, beyond in enumerate(place.next[box]):
                behind = place.next[box][direction ^ 1]
                if beyond == NOWHERE or behind == NOWHERE:
                    continue
                if boxes >> beyond & 1 or not reach >> behind & 1 or not place.live >> beyond & 1:
                    continue
                pushed = boxes ^ (1 << box) ^ (1 << beyond)
                if solved(place, (box, pushed)):
                    return True
                after = (_reach(place, (box, pushed)), pushed)
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
        if len(seen) > budget:
            return None
    return False


def _reach(place: Room, state: State) -> int:
    """The set of cells that the player can walk to without a push."""
    player, boxes = state
    reach = 1 << player
    waiting = [player]
    while waiting:
        for at in place.next[waiting.pop()]:
            if at != NOWHERE and not (reach | boxes) >> at & 1:
                reach |= 1 << at
                waiting.append(at)
    return reach

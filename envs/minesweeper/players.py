"""Scripted players: references to measure a model against, and the logic that the demonstrator borrows.

*One-number logic* looks at one open number at a time: if all its mines are known, its other hidden neighbours
are safe; if as many are hidden as mines are missing, they are all mines; and so on until nothing new follows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

from envs.minesweeper.board import HIDDEN, MINE, Grid
from envs.minesweeper.env import MineSweeper

Skill = Literal["random", "logic", "logic+facts"]
"""`random`: any hidden cell. `logic`: one-number logic on the board as it stands, else random.
`logic+facts`: the same on all that was seen in the trial so far."""


def deduce(board: Grid, facts: Sequence[str]) -> tuple[set[int], set[int]]:
    """The safe cells and the mines that follow by one-number logic from the faces known (`?` where unknown).

    Only cells whose face is unknown are named safe; mines include those already known.
    """
    mines = {cell for cell, face in enumerate(facts) if face == MINE}
    safe: set[int] = set()
    clues = [(int(face), board.near[cell]) for cell, face in enumerate(facts) if face.isdigit()]
    changed = True
    while changed:
        changed = False
        for number, near in clues:
            open_question = [c for c in near if facts[c] == HIDDEN and c not in mines and c not in safe]
            if not open_question:
                continue
            missing = number - sum(1 for c in near if c in mines)
            if missing == 0:
                safe.update(open_question)
                changed = True
            elif missing == len(open_question):
                mines.update(open_question)
                changed = True
    return safe, mines


def choose(board: Grid, shown: Sequence[str], facts: Sequence[str], rng: random.Random) -> int:
    """A hidden cell: a safe one if the facts give one, else a random one that isn't known to be a mine."""
    safe, mines = deduce(board, facts)
    hidden = [cell for cell, face in enumerate(shown) if face == HIDDEN]
    sure = [cell for cell in hidden if cell in safe or facts[cell] not in (HIDDEN, MINE)]
    return rng.choice(sure or [cell for cell in hidden if cell not in mines] or hidden)


def play_trial(
    env: MineSweeper, instance: str | int, skill: Skill, rng: random.Random, *, attempts: int, max_turns: int
) -> int | None:
    """Play up to `attempts` episodes of one board. The index of the one that was won, or None."""
    board = env.grid
    facts = [HIDDEN] * len(board.words)
    for attempt in range(attempts):
        _, info = env.reset(options={"instance": instance}) if attempt == 0 else env.restart()
        for _ in range(max_turns):
            shown = env.shown
            for cell, face in enumerate(shown):
                if face != HIDDEN:
                    facts[cell] = face
            if skill == "random":
                cell = rng.choice([cell for cell, face in enumerate(shown) if face == HIDDEN])
            else:
                cell = choose(board, shown, facts if skill == "logic+facts" else shown, rng)
            _, _, over, _, info = env.step(board.words[cell])
            if over:
                break
        if info["success"]:
            return attempt
        for cell, face in enumerate(env.shown):
            if face != HIDDEN:
                facts[cell] = face
    return None

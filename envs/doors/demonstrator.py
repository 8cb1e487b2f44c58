"""Rows for behaviour cloning in the compact format: random doors, tips that are mostly heeded and right.

- *Doors*: without tips a random one. With doors named for the room, the first of them with chance 0.9
  (`HEED`), else a random one. Up to three doors are named, at random (`_NAMED`).
- *Tips*: after an episode the last door that led on, with its room, or `none`. Tips are right, as what the
  policy then writes is wrong often enough: before the first success all scores are equal, so a wrong tip
  counts as much as a right one.

Every trial has a hidden rule of its own, so nothing of the real one can be learnt from them. Random play
hardly ever comes far, so most of a trial's first episodes are walked by a guide who knows its rule and errs
with chance 0.3: of those the tip is a row, the doors are not. Three of five rows are tips, as they take
longest to learn.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from envs.base import EpisodeRecord, Step, View
from envs.doors.compact import NONE, CompactStyle, pairs
from envs.doors.env import Doors
from envs.doors.house import instances
from envs.doors.options import Options
from envs.doors.picture import room_png
from envs.warmstart import Play, Row

HEED, ERRS = 0.9, 0.3
_NAMED = (0, 1, 1, 2, 3)
"""How many doors a demonstrated prompt with tips names."""

_GUIDED = (True, True, False) * 3
"""Episodes of a trial that a tip is demonstrated on: enough of them that copying is learnt in 900 steps."""


def demonstrations(options: Options, seed: int, play: Play) -> Iterator[Row]:
    """See WarmStart. Tips are always among the rows, whatever is remembered between episodes."""
    rng = random.Random(seed)
    style = CompactStyle(options)
    houses = instances(options, "train")
    while True:
        env = Doors(replace(options, rule=rng.randrange(2**31)), style)
        env.reset(options={"instance": rng.choice(houses)})
        for guided in _GUIDED:
            yield _tip(env, style, rng, guided=guided)
        for _ in range(3):
            yield from _doors(options, style, rng)


def hints(options: Options, seed: int) -> Iterator[Row]:
    """See WarmStart: a room and one of its doors, at random."""
    rng = random.Random(seed)
    style = CompactStyle(options)
    while True:
        room = rng.choice(options.kind_words)
        yield style.advise_prompt("", room), f"{room} {rng.choice(options.door_words)} <eos>"


def sights(options: Options, seed: int) -> Iterator[bytes]:
    """See WarmStart: the rooms of `hints`."""
    for _, answer in hints(options, seed):
        yield room_png(answer.split()[0], options.door_words)


def _doors(options: Options, style: CompactStyle, rng: random.Random) -> Iterator[Row]:
    """A room without tips, and with."""
    doors = options.door_words
    room = rng.choice(options.kind_words)
    yield style.act_prompt(View(room)), rng.choice(doors)
    named = rng.sample(doors, rng.choice([n for n in _NAMED if n <= len(doors)]))
    other = next(kind for kind in options.kind_words if kind != room)
    tips = tuple(f"{room} {door}" for door in named) or (f"{other} {doors[0]}",)
    heeded = named and rng.random() < HEED
    yield style.act_prompt(View(room, tips=tips)), named[0] if heeded else rng.choice(doors)


def _tip(env: Doors, style: CompactStyle, rng: random.Random, *, guided: bool) -> Row:
    """An episode, and what is written about it."""
    doors = env.options.door_words
    room, _ = env.restart()
    steps: list[Step] = []
    over = False
    while not over:
        right = guided and rng.random() >= ERRS
        door = env.rule[room] if right else rng.choice(doors)
        after, reward, over, _, info = env.step(door)
        steps.append(Step(room, door, (door,), reward))
        room = after
    record = EpisodeRecord(
        0, tuple(steps), room, info["success"], "success" if info["success"] else "failure"
    )
    told = pairs(record)
    answer = " ".join(told[-1]) if told else f"{NONE} <eos>"
    return style.tip_prompt(View(room), record), answer

"""Scripted players: how far one comes with and without looking, as references for a model."""

from __future__ import annotations

import random
from typing import Literal

from envs.base import Instance
from envs.scout.env import LOOK, Scout
from envs.scout.field import cell_words, sightings

Skill = Literal["random", "beside", "scout"]
"""`random`: digs anywhere but under landmarks. `beside`: digs beside landmarks, never twice in one place.
`scout`: uses all but its last dig of the first episode, then looks, then digs where the treasure is."""


def play_trial(
    env: Scout, instance: Instance, skill: Skill, rng: random.Random, *, attempts: int
) -> int | None:
    """Play up to `attempts` episodes of one field. The index of the one that found the treasure, or None."""
    env.reset(options={"instance": instance})
    size, digs = env.options.size, env.options.digs
    words, likely = cell_words(size), sorted(sightings(size, env.field.landmarks))
    dug: set[int] = set()
    for attempt in range(attempts):
        env.restart()
        for turn in range(digs):
            if skill == "random":
                cell = rng.choice([c for c in range(size**2) if c not in env.field.landmarks])
            elif skill == "scout" and attempt > 0:
                cell = env.field.treasure
            else:
                cell = rng.choice([c for c in likely if c not in dug] or likely)
            look = skill == "scout" and attempt == 0 and turn == digs - 1
            dug.add(cell)
            _, _, over, _, info = env.step(LOOK if look else words[cell])
            if info["success"]:
                return attempt
            if over:
                break
    return None

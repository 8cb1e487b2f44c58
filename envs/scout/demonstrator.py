"""Rows for behaviour cloning in the compact format: play that looks rarely and mostly heeds what it knows.

Each move is drawn afresh:

- with something seen among what it knows, it digs there with chance 0.8 (`HEED`);
- otherwise it looks with chance 0.05 (`LOOKS`);
- otherwise it digs in a random cell without landmark or hole.

What was seen would be rare in such play, and then also rarely imitated. So half of the trials begin with a
look that isn't a row of its own: what comes after it is shown often, looking itself rarely.

Where memory is `reflection`, it knows nothing but its own notes: after a failed attempt it writes what it saw
or where it dug with chance ½ (`CORRECT_NOTE`), else a random word that can be remembered. `both` is both.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from envs.base import EpisodeMemory, EpisodeRecord, View
from envs.scout.compact import CompactStyle, Render, vocabulary
from envs.scout.env import LOOK, Scout
from envs.scout.field import NAMES, SIDES, beside, cell_words, instances
from envs.scout.options import Options
from envs.warmstart import Play, Row

HEED, LOOKS, GIVEN, CORRECT_NOTE = 0.8, 0.05, 0.5, 0.5


def demonstrations(options: Options, seed: int, play: Play) -> Iterator[Row]:
    """See WarmStart."""
    rng = random.Random(seed)
    style = CompactStyle(options.size)
    env = Scout(options, style, Render(options.size))
    fields = instances(options, "train")
    while True:
        env.reset(options={"instance": rng.choice(fields)})
        yield from _trial(env, style, rng, play)


def hints(options: Options, seed: int) -> Iterator[Row]:
    """See WarmStart: one or two words that can be remembered, at random."""
    rng = random.Random(seed)
    style = CompactStyle(options.size)
    env = Scout(options, style, Render(options.size))
    fields, words = instances(options, "train"), _remembered_words(options)
    while True:
        observation, _ = env.reset(options={"instance": rng.choice(fields)})
        told = " ".join(rng.sample(words, rng.randint(1, 2)))
        yield style.advise_prompt("", observation), f"{told} <eos>"


def _trial(env: Scout, style: CompactStyle, rng: random.Random, play: Play) -> Iterator[Row]:
    remembered: tuple[EpisodeMemory, ...] = ()
    given = play.attempts > 1 and rng.random() < GIVEN
    for attempt in range(play.attempts):
        observation, info = env.restart()
        over, turns = False, 0
        while not over and turns < (play.max_turns or env.options.max_turns):
            turns += 1
            view = View(observation, episode=attempt, episodes=play.attempts, memory=remembered)
            prompt = style.act_prompt(view)
            word = LOOK if given and attempt == 0 else _move(env, prompt, rng)
            if not (given and attempt == 0):
                yield prompt, word
            observation, _, over, _, info = env.step(word)
        if info["success"] or attempt == play.attempts - 1:
            return
        record = EpisodeRecord(attempt, (), observation, False, "failure")
        summary = note = None
        if play.memory != "reflection":
            summary = style.summarise(record)
        if play.memory != "history":
            told, words = style.summarise(record).split(), _remembered_words(env.options)
            note = rng.choice(told if told and rng.random() < CORRECT_NOTE else words)
            yield style.reflect_prompt(View(observation, episode=attempt), record), note
        remembered += (EpisodeMemory(attempt, False, summary, note),)


def _move(env: Scout, prompt: str, rng: random.Random) -> str:
    size, landmarks = env.options.size, env.field.landmarks
    cells = cell_words(size)
    known = prompt.partition("Try ")[0].split()
    for word in known:
        side, _, name = word.partition("-of-")
        if not name or name not in NAMES[: len(landmarks)]:
            continue
        target = beside(size, landmarks[NAMES.index(name)], side)
        if target is not None and rng.random() < HEED:
            return cells[target]
    if rng.random() < LOOKS:
        return LOOK
    holes = prompt.partition(" now ")[2].split()
    return rng.choice([word for c, word in enumerate(cells) if c not in landmarks and word not in holes])


def _remembered_words(options: Options) -> list[str]:
    seen = [f"{side}-of-{name}" for name in NAMES[: options.landmarks] for side in SIDES]
    return [word for word in vocabulary(options) if word in seen or word in cell_words(options.size)]

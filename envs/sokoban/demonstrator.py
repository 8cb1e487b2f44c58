"""Rows for behaviour cloning in the compact format: legal play, half of it aimless, that heeds its memory now
and then.

In each trial, independently,

- with chance ½ it is a *planner*: half of its turns follow a shortest solution of the room before it, as long
  as there is one;
- with chance ½ it is *careful*: it doesn't begin an attempt with a word that it has tried, if it has another.

All other turns walk at random, never against what doesn't give way. Where memory is `reflection`, all that it
knows is its own notes: after a failed attempt it writes the attempt's first word with chance ½, else a random
one. `both` is both.

Only rooms of the train split are played.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache

from envs.base import EpisodeMemory, EpisodeRecord, Step, View
from envs.options import require
from envs.sokoban.compact import CompactStyle, move_words
from envs.sokoban.env import Sokoban
from envs.sokoban.generator import SEEDS
from envs.sokoban.options import Options
from envs.sokoban.room import MOVES, Room, State, moved, solved
from envs.warmstart import Play, Row

ROOMS = 2_048
"""Rooms that are demonstrated: making one takes milliseconds, and each is played often."""
PLANNER, PLANNED, CAREFUL, CORRECT_NOTE = 0.5, 0.5, 0.5, 0.5
_TRIES = 8


def demonstrations(options: Options, seed: int, play: Play) -> Iterator[Row]:
    """See WarmStart."""
    require(options.format == "compact", "format", options.format, "compact for demonstrations")
    rng = random.Random(seed)
    env = Sokoban(options, CompactStyle(options.max_moves_per_turn))
    rooms = rng.sample(range(SEEDS), ROOMS)
    while True:
        env.reset(options={"instance": rng.choice(rooms)})
        yield from _trial(env, rng, play)


def _trial(env: Sokoban, rng: random.Random, play: Play) -> Iterator[Row]:
    style, most = env.style, play.max_turns or env.options.max_turns
    planner, careful = rng.random() < PLANNER, rng.random() < CAREFUL
    remembered: tuple[EpisodeMemory, ...] = ()
    tried: set[str] = set()
    for attempt in range(play.attempts):
        observation, info = env.restart()
        first, over = "", False
        for turn in range(most):
            avoided = tried if careful and turn == 0 else set()
            word = _word(env, rng, planner and rng.random() < PLANNED, avoided)
            first = first or word
            view = View(observation, episode=attempt, episodes=play.attempts, memory=remembered)
            yield str(style.act_prompt(view)), word
            observation, _, over, _, info = env.step("; ".join(style.parse_action(word).actions))
            if over:
                break
        if info["success"] or attempt == play.attempts - 1:
            return
        steps = (Step("", first, style.parse_action(first).actions, 0.0),)
        record = EpisodeRecord(attempt, steps, observation, False, "failure" if over else "step_limit")
        summary = note = None
        if play.memory != "reflection":
            summary = style.summarise(record)
            tried.add(summary)
        if play.memory != "history":
            note = first
            if rng.random() >= CORRECT_NOTE:
                note = rng.choice(move_words(env.options.max_moves_per_turn))
            tried.add(note)
            yield str(style.reflect_prompt(View(observation, episode=attempt), record)), note
        remembered += (EpisodeMemory(attempt, False, summary, note),)


def _word(env: Sokoban, rng: random.Random, planned: bool, avoided: set[str]) -> str:
    """The next turn's moves. `avoided` is avoided as far as a few tries find something else."""
    most = env.options.max_moves_per_turn
    if planned:
        word = _solution(env, most)
        if word and word not in avoided:
            return word
    for _ in range(_TRIES):
        word = _walk(env.room, env.state, rng, rng.randint(1, most))
        if word not in avoided:
            break
    return word


def _walk(place: Room, state: State, rng: random.Random, length: int) -> str:
    letters = []
    for _ in range(length):
        possible = [(d, after) for d in range(4) if (after := moved(place, state, d)) is not None]
        if not possible:
            break
        direction, state = rng.choice(possible)
        letters.append(MOVES[direction][0])
    return "".join(letters) or MOVES[rng.randrange(4)][0]


@lru_cache(maxsize=ROOMS)
def _plan(place: Room, start: State) -> dict[State, tuple[int, State]]:
    """State -> first move of a shortest solution and the state after it, where there is a solution."""
    before: dict[State, list[tuple[int, State]]] = {start: []}
    waiting, frontier = [start], []
    while waiting:
        state = waiting.pop()
        if solved(place, state):
            frontier.append(state)
            continue
        for direction in range(4):
            after = moved(place, state, direction)
            if after is not None:
                if after not in before:
                    before[after] = []
                    waiting.append(after)
                before[after].append((direction, state))
    plan: dict[State, tuple[int, State]] = {}
    while frontier:  # breadth first, backwards from all solved states at once
        ahead = []
        for state in frontier:
            for direction, earlier in before[state]:
                if earlier not in plan:
                    plan[earlier] = (direction, state)
                    ahead.append(earlier)
        frontier = ahead
    return plan


def _solution(env: Sokoban, most: int) -> str:
    """The first moves of a shortest solution from here, as a word; empty if there is none."""
    plan, state, letters = _plan(env.room, env.start), env.state, ""
    while len(letters) < most and state in plan:
        direction, state = plan[state]
        letters += MOVES[direction][0]
    return letters

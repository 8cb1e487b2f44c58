"""Rows for behaviour cloning in the compact format: legal, poor play that sometimes uses its memory.

The demonstrator clicks a random hidden cell. In each trial, independently,

- with chance ½ it is *logical*: half of its moves follow one-number logic on the board before it;
- with chance ½ it is *careful*: it avoids the mines that it knows and first replays cells that it saw safe in
  earlier attempts.

Where memory is `history`, it knows the mines that ended its earlier attempts and the safe cells that it saw.
Those safe cells aren't in its prompt. Where memory is `reflection`, it knows nothing but its own notes: after
a failed attempt it writes one cell, the mine just hit with chance 0.3, else a random one. `both` is both.

Only boards of the train split are played.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import count

from envs.base import EpisodeMemory, EpisodeRecord, View
from envs.minesweeper.board import HIDDEN, MINE
from envs.minesweeper.compact import CompactStyle, renderer
from envs.minesweeper.env import MineSweeper
from envs.minesweeper.instances import instances
from envs.minesweeper.options import Options
from envs.minesweeper.players import deduce
from envs.options import require
from envs.warmstart import Memory, Play, Row

CORRECT_NOTE = 0.3


def demonstrations(options: Options, seed: int, play: Play) -> Iterator[Row]:
    """See WarmStart."""
    require(options.format == "compact", "format", options.format, "compact for demonstrations")
    rng = random.Random(seed)
    style = CompactStyle(options.size)
    env = MineSweeper(options, style, renderer(options.size))
    boards = instances(options, "train")
    for _ in count():
        env.reset(options={"instance": rng.choice(boards)})
        yield from _Trial(env, style, rng, play.memory).rows(
            play.attempts, play.max_turns or options.max_turns
        )


class _Trial:
    def __init__(self, env: MineSweeper, style: CompactStyle, rng: random.Random, memory: Memory) -> None:
        self.env, self.style, self.rng, self.memory = env, style, rng, memory
        self.logical = rng.random() < 0.5
        self.careful = rng.random() < 0.5
        self.mines: set[int] = set()
        self.safe: set[int] = set()

    def rows(self, attempts: int, max_turns: int) -> Iterator[Row]:
        env, style = self.env, self.style
        words = env.grid.words
        remembered: tuple[EpisodeMemory, ...] = ()
        for attempt in range(attempts):
            observation, info = env.restart()
            for _ in range(max_turns):
                view = View(observation, episode=attempt, episodes=attempts, memory=remembered)
                word = words[self._move(env.shown)]
                yield style.act_prompt(view), word
                observation, _, over, _, info = env.step(word)
                if over:
                    break
            if info["success"] or attempt == attempts - 1:
                return
            record = EpisodeRecord(attempt, (), observation, False, "failure" if over else "step_limit")
            summary = note = None
            if self.memory != "reflection":
                summary = self._see()
            if self.memory != "history":
                note = self._note()
                yield (
                    style.reflect_prompt(View(observation, episode=attempt, memory=remembered), record),
                    note,
                )
            remembered += (EpisodeMemory(attempt, False, summary, note),)

    def _move(self, shown: Sequence[str]) -> int:
        hidden = [cell for cell, face in enumerate(shown) if face == HIDDEN]
        if self.careful:
            replay = [cell for cell in hidden if cell in self.safe]
            if replay:
                return self.rng.choice(replay)
            hidden = [cell for cell in hidden if cell not in self.mines] or hidden
        if self.logical and self.rng.random() < 0.5:
            safe, mines = deduce(self.env.grid, shown)
            hidden = (
                [cell for cell in hidden if cell in safe]
                or [cell for cell in hidden if cell not in mines]
                or hidden
            )
        return self.rng.choice(hidden)

    def _see(self) -> str:
        """Take in the attempt that just ended; its line of memory."""
        hit = ""
        for cell, face in enumerate(self.env.shown):
            if face == MINE:
                self.mines.add(cell)
                hit = self.env.grid.words[cell]
            elif face != HIDDEN:
                self.safe.add(cell)
        return hit

    def _note(self) -> str:
        hit = [cell for cell, face in enumerate(self.env.shown) if face == MINE]
        cell = self.rng.randrange(len(self.env.shown))
        if hit and self.rng.random() < CORRECT_NOTE:
            cell = hit[0]
        self.mines.add(cell)
        return self.env.grid.words[cell]

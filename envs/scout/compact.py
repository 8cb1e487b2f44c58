"""The compact format: a prompt of 6-13 words and an answer of exactly one, for small word-level models.

    first attempt     Try 1 now tree@(2,3) rock@(1,1) well@(4,2) move:                       -> look
    later attempts    known: east-of-tree Try 2 now tree@(2,3) rock@(1,1) well@(4,2) move:   -> (2,4)
                      known: (1,2) Try 2 now tree@(2,3) rock@(1,1) well@(4,2) move:          -> (2,4)
    reflection        Try 1 ended tree@(2,3) rock@(1,1) well@(4,2) east-of-tree Note:        -> east-of-tree

An observation is the landmarks with their cells, then the holes dug, then what was seen from the tower, or
`found`. The `known:` line stands there whenever the view has a memory, tips or a hint: the holes and
sightings in them, without repetition, in order; `none` if there are none. Attempts are counted 1 .. 8; later
ones are all called 8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from envs.base import EpisodeRecord, ParsedAction, ParsedReflection, PromptStyle, View
from envs.scout.env import LOOK
from envs.scout.field import NAMES, SIDES, cell_words
from envs.scout.options import Options

MOST_ATTEMPTS = 8
FOUND = "found"


@lru_cache(maxsize=16)
def notes(size: int) -> tuple[str, ...]:
    """The words that can be remembered: cells (where nothing was found) and sightings."""
    return (*cell_words(size), *(f"{side}-of-{name}" for name in NAMES for side in SIDES))


def vocabulary(options: Options) -> list[str]:
    """Every word of the format, each once. 4 x 4 with 3 landmarks: 93 words."""
    size, names = options.size, NAMES[: options.landmarks]
    frame = ["Try", "now", "ended", "move:", "Note:", "known:", "none", FOUND, LOOK]
    attempts = [str(n) for n in range(1, MOST_ATTEMPTS + 1)]
    seen = [f"{side}-of-{name}" for name in names for side in SIDES]
    placed = [f"{name}@{cell}" for name in names for cell in cell_words(size)]
    return [*frame, *attempts, *cell_words(size), *seen, *placed]


@dataclass(frozen=True, slots=True)
class Render:
    """Writes a field as words. Picklable."""

    size: int

    def __call__(
        self, landmarks: tuple[int, ...], holes: tuple[int, ...], found: bool, seen: str | None
    ) -> str:
        cells = cell_words(self.size)
        words = [f"{name}@{cells[at]}" for name, at in zip(NAMES, landmarks, strict=False)]
        words += [cells[hole] for hole in holes]
        words += [FOUND] if found else []
        words += [seen] if seen else []
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class CompactStyle(PromptStyle):
    """See the module's docstring."""

    size: int

    def act_prompt(self, view: View) -> str:
        """`[known: ...] Try n now FIELD move:`"""
        prompt = f"Try {min(view.episode + 1, MOST_ATTEMPTS)} now {view.observation} move:"
        if not (view.memory or view.tips or view.hint):
            return prompt
        words = " ".join(dict.fromkeys(self._noted(view))) or "none"
        return f"known: {words} {prompt}"

    def _noted(self, view: View) -> Iterator[str]:
        for episode in view.memory:
            yield from self._words(episode.summary)
            yield from self._words(episode.reflection)
        for tip in view.tips:
            yield from self._words(tip)
        yield from self._words(view.hint)

    def _words(self, text: str | None) -> list[str]:
        known = notes(self.size)
        return [word for word in (text or "").split() if word in known]

    def reflect_prompt(self, view: View, episode: EpisodeRecord) -> str:
        """`Try n ended FIELD Note:`"""
        attempt = min(episode.index + 1, MOST_ATTEMPTS)
        return f"Try {attempt} ended {episode.final_observation} Note:"

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The answer if it is one cell word or `look` and nothing else, else invalid."""
        word = response.strip()
        if word == LOOK or word in cell_words(self.size):
            return ParsedAction((word,))
        return ParsedAction((), invalid=True)

    def parse_reflection(self, response: str) -> ParsedReflection:
        """The answer if it is one word that can be remembered and nothing else, else empty and invalid."""
        word = response.strip()
        return ParsedReflection(word) if word in notes(self.size) else ParsedReflection("", invalid=True)

    def summarise(self, episode: EpisodeRecord) -> str:
        """The holes that were dug in vain, and what was seen from the tower."""
        return " ".join(self._words(episode.final_observation))

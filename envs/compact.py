"""Compact prompt styles over attempts, for small word-level models: what their environments have in common.

    first attempt     Try 1 now OBSERVATION move:
    later attempts    LABEL: WORDS Try 3 now OBSERVATION move:
    reflection        Try 1 ENDED OBSERVATION QUESTION
    advice            now OBSERVATION QUESTION

The `LABEL:` words stand there whenever the view has a memory, tips or a hint: the words in them that the
format can remember, without repetition and in order, or `none`. Attempts are counted 1 .. 8; later ones are
all called 8. A reflection is one such word.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

from envs.base import EpisodeRecord, ParsedReflection, PromptStyle, View

MOST_ATTEMPTS = 8


class CompactStyle(PromptStyle):
    """A subclass says which words can be remembered, how an action reads, and what an episode leaves."""

    label: ClassVar[str]
    """What remembered words are called in a prompt."""
    ended: ClassVar[str]
    question: ClassVar[str]

    @abstractmethod
    def noted(self, text: str) -> Sequence[str]:
        """The words of a text that can be remembered, in order."""

    def act_prompt(self, view: View) -> str:
        """See the module's docstring."""
        prompt = f"Try {_attempt(view.episode)} now {view.observation} move:"
        if not (view.memory or view.tips or view.hint):
            return prompt
        words = " ".join(dict.fromkeys(self._remembered(view))) or "none"
        return f"{self.label}: {words} {prompt}"

    def reflect_prompt(self, view: View, episode: EpisodeRecord) -> str:
        """See the module's docstring."""
        return f"Try {_attempt(episode.index)} {self.ended} {episode.final_observation} {self.question}"

    def advise_prompt(self, task: str, observation: str) -> str:
        """See the module's docstring; the words of the format can't say a task."""
        return f"now {observation} {self.question}"

    def parse_reflection(self, response: str) -> ParsedReflection:
        """The answer if it is one word that can be remembered and nothing else, else empty and invalid."""
        word = response.strip()
        if list(self.noted(word)) == [word]:
            return ParsedReflection(word)
        return ParsedReflection("", invalid=True)

    def _remembered(self, view: View) -> Iterator[str]:
        texts = [part for episode in view.memory for part in (episode.summary, episode.reflection)]
        for text in (*texts, *view.tips, view.hint):
            if text:
                yield from self.noted(text)


def _attempt(index: int) -> int:
    return min(index + 1, MOST_ATTEMPTS)

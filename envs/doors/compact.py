"""The compact format, for small word-level models: a room, perhaps what tips say of it, and a door.

    without tips    Room hall door:                               -> red
    with tips       tips: blue red Room hall door:                -> blue
    no help         tips: none Room hall door:                    -> red
    a tip           hall:blue cellar:red attic!gold Tip:          -> hall:blue cellar:red <eos>
    no tip          hall!red Tip:                                 -> none <eos>

An episode is written down as a word a door: `hall:blue` led on, `hall!blue` did not. A tip is words of doors
that led on. Of all that a view remembers (tips, the hint, and earlier episodes) a prompt shows the doors that
are said to lead on from the present room, each once, in order; so the best tip's comes first. An episode's
account is its words without the last one if that did not lead on. A reflection is asked for and read like a
tip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from envs.base import EpisodeRecord, ParsedAction, ParsedReflection, PromptStyle, Step, View
from envs.doors.env import GOAL, OUTSIDE
from envs.doors.options import Options

NONE = "none"


def pair_words(options: Options, mark: str = ":") -> list[str]:
    """The words of all doors of all kinds of rooms."""
    return [f"{kind}{mark}{door}" for kind in options.kind_words for door in options.door_words]


def vocabulary(options: Options) -> list[str]:
    """Every word of the format, each once. 8 kinds and 6 doors: 117 words."""
    frame = ["Room", "door:", "tips:", "Tip:", NONE, OUTSIDE, GOAL]
    words = [*frame, *options.kind_words, *options.door_words]
    return [*words, *pair_words(options), *pair_words(options, "!")]


def led_on(episode: EpisodeRecord) -> list[tuple[Step, bool]]:
    """The steps that opened a door, and whether it led on."""
    after = [*(step.observation for step in episode.steps[1:]), episode.final_observation]
    return [
        (step, seen != OUTSIDE)
        for step, seen in zip(episode.steps, after, strict=True)
        if step.actions and not step.invalid
    ]


def written(episode: EpisodeRecord) -> list[str]:
    """An episode as words, see the module's docstring."""
    return [f"{step.observation}{':' if right else '!'}{step.actions[0]}" for step, right in led_on(episode)]


@dataclass(frozen=True, slots=True)
class CompactStyle(PromptStyle):
    """See the module's docstring."""

    options: Options

    def act_prompt(self, view: View) -> str:
        """`[tips: DOORS] Room ROOM door:`"""
        prompt = f"Room {view.observation} door:"
        if not (view.memory or view.tips or view.hint):
            return prompt
        doors = " ".join(dict.fromkeys(self._named(view))) or NONE
        return f"tips: {doors} {prompt}"

    def _named(self, view: View) -> Iterator[str]:
        texts = [*view.tips, view.hint]
        for episode in view.memory:
            texts += [episode.summary, episode.reflection]
        start = f"{view.observation}:"
        for text in texts:
            for word in (text or "").split():
                if word.startswith(start) and word.removeprefix(start) in self.options.door_words:
                    yield word.removeprefix(start)

    def tip_prompt(self, view: View, episode: EpisodeRecord) -> str:
        """`ROOM:DOOR ... ROOM!DOOR Tip:`"""
        return " ".join([*written(episode), "Tip:"])

    def parse_tip(self, response: str) -> ParsedReflection:
        """The answer if it is words of doors that lead on and nothing else, else empty and invalid."""
        words = response.split()
        if words and not {*words} - {*pair_words(self.options)}:
            return ParsedReflection(" ".join(words))
        return ParsedReflection("", invalid=True)

    def reflect_prompt(self, view: View, episode: EpisodeRecord) -> str:
        """As for a tip."""
        return self.tip_prompt(view, episode)

    def parse_reflection(self, response: str) -> ParsedReflection:
        """As a tip, but `none` is a valid, empty one."""
        if response.split() == [NONE]:
            return ParsedReflection("")
        return self.parse_tip(response)

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The answer if it is one door and nothing else, else invalid."""
        word = response.strip()
        if word in self.options.door_words:
            return ParsedAction((word,))
        return ParsedAction((), invalid=True)

    def summarise(self, episode: EpisodeRecord) -> str:
        """The words of the doors that led on."""
        return " ".join(word for word in written(episode) if "!" not in word)

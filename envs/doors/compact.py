"""The compact format, for small word-level models: a room, perhaps what tips say of it, and a door.

    without tips    Room hall door:                                       -> red
    with tips       tips: blue red Room hall door:                        -> blue
    no help         tips: none Room hall door:                            -> red
    a tip           not attic gold on hall blue far cellar red Tip: far   -> cellar red
    no tip          not hall red Tip: far                                 -> none <eos>
    advice          Room hall Tip:                                        -> hall blue <eos>
    with a picture  Room Tip:                                             -> hall blue <eos>

An episode is written down as three words a door: whether it led on, the room, the door; the wrong door
comes first, and the last one that led on is marked `far`, the word that the question ends with. So what a
tip should say stands behind an earlier occurrence of the prompt's last word, which a small model learns to
copy (from a place that is marked by its position alone it didn't). A tip is one room and the door that
leads on from it. Of all that a view remembers (tips, the hint, and earlier episodes) a prompt shows the
doors that are said to lead on from the present room, each once, in order; so the best tip's comes first. An
episode's account is the rooms and doors that led on. A reflection is asked for and read like a tip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from envs.base import EpisodeRecord, ParsedAction, ParsedReflection, PromptStyle, Step, View
from envs.doors.env import GOAL, OUTSIDE
from envs.doors.options import Options

NONE, FAR = "none", "far"


def vocabulary(options: Options) -> list[str]:
    """Every word of the format, each once. 8 kinds and 6 doors: 24 words."""
    frame = ["Room", "door:", "tips:", "Tip:", "on", "not", FAR, NONE, OUTSIDE, GOAL]
    return [*frame, *options.kind_words, *options.door_words]


def led_on(episode: EpisodeRecord) -> list[tuple[Step, bool]]:
    """The steps that opened a door, and whether it led on."""
    after = [*(step.observation for step in episode.steps[1:]), episode.final_observation]
    return [
        (step, seen != OUTSIDE)
        for step, seen in zip(episode.steps, after, strict=True)
        if step.actions and not step.invalid
    ]


def pairs(episode: EpisodeRecord) -> list[tuple[str, str]]:
    """The rooms and doors that led on."""
    return [(step.observation, step.actions[0]) for step, right in led_on(episode) if right]


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
        for text in texts:
            for room, door in pairwise((text or "").split()):
                if room == view.observation and door in self.options.door_words:
                    yield door

    def tip_prompt(self, view: View, episode: EpisodeRecord) -> str:
        """`[not ROOM DOOR] on ROOM DOOR ... far ROOM DOOR Tip: far`"""
        tried = sorted(led_on(episode), key=lambda door: door[1])
        marks = ["on" if right else "not" for _, right in tried]
        if "on" in marks:
            marks[-1] = FAR
        words = [
            word
            for mark, (step, _) in zip(marks, tried, strict=True)
            for word in (mark, step.observation, step.actions[0])
        ]
        return " ".join([*words, "Tip:", FAR])

    def advise_prompt(self, task: str, observation: str) -> str:
        """`Room ROOM Tip:`, or, with a picture of it, `Room Tip:`"""
        return "Room Tip:" if self.options.screenshot else f"Room {observation} Tip:"

    def parse_tip(self, response: str) -> ParsedReflection:
        """The answer if it is one room and one door and nothing else, else empty and invalid."""
        match response.split():
            case [room, door] if room in self.options.kind_words and door in self.options.door_words:
                return ParsedReflection(f"{room} {door}")
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
        """The rooms and doors that led on."""
        return " ".join(f"{room} {door}" for room, door in pairs(episode))

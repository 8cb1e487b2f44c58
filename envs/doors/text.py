"""The text format: chat messages, the room in a sentence, answers in action tags after free thought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envs.base import EpisodeRecord, ParsedAction, Prompt, View
from envs.chat import ChatStyle, tagged
from envs.doors.compact import CompactStyle, led_on
from envs.doors.env import GOAL, OUTSIDE
from envs.doors.options import Options

_RULES = """\
You walk through a house of {rooms} rooms. Every room has {count} doors: {doors}. One of them leads to the \
next room, and in the last room to the goal; every other door leads outside, and the attempt is lost.

Which door is right depends on nothing but what kind of room it is. It is the same door in every house, and \
you are not told which.

Think first as long as you need, then give the door as <action>colour</action>, for example \
<action>{example}</action>."""
_ENDS = {OUTSIDE: "You are outside.", GOAL: "You have reached the goal."}


@dataclass(frozen=True, slots=True)
class TextStyle(ChatStyle):
    """See `envs.chat` for the layout of the messages."""

    options: Options

    @property
    def history_turns(self) -> int:
        """As the options say."""
        return self.options.history_turns

    def rules(self, view: View) -> str:
        """The game and the form of an answer."""
        doors = self.options.door_words
        return _RULES.format(
            rooms=self.options.rooms, count=len(doors), doors=", ".join(doors), example=doors[0]
        )

    def situation(self, observation: str) -> str:
        """The room in a sentence."""
        return _ENDS.get(observation, f"You are in the {observation}.")

    def advise_prompt(self, task: str, observation: str) -> Prompt:
        """In chat messages, or in words if the options say so."""
        if self.options.advice == "words":
            return CompactStyle(self.options).advise_prompt(task, observation)
        return ChatStyle.advise_prompt(self, task, observation)

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The door in the last action tag; invalid if there is none, or no such door."""
        door = (tagged(response, "action") or "").strip()
        if door in self.options.door_words:
            return ParsedAction((door,))
        return ParsedAction((), invalid=True)

    def summarise(self, episode: EpisodeRecord) -> str:
        """Which doors led on, which one didn't, and where it ended."""
        lines = [
            f"In the {step.observation} the {step.actions[0]} door {'led on' if on else 'did not lead on'}."
            for step, on in led_on(episode)
        ]
        lines = lines or ["You opened no door."]
        return "\n".join([*lines, f"The end: {episode.final_observation}"])

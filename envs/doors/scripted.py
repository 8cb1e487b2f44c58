"""Doors' scripted agent: a guest who lost his way in the first room only."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from envs.base import View
from envs.doors.house import rule_of
from envs.doors.options import Options


@dataclass(frozen=True, slots=True)
class Guest:
    """In the first room he opens the door that a hint names for it, else the usual one: without help
    he gets through where that one happens to be right. Behind it he knows the way. So a memory policy has to
    learn the rule of every kind of room, and that some need no hint.
    """

    options: Options
    usual: int = 0
    """Place of the door that he opens without help, in the list of doors."""

    def respond(self, view: View) -> str:
        """A door's colour, in the form of the options' format."""
        doors = self.options.door_words
        if any(not step.invalid for step in view.history):
            door = rule_of(self.options.rule, self.options.kind_words, doors)[view.observation]
        else:
            named = pairwise((view.hint or "").replace(",", " ").replace(".", " ").split())
            told = (door for room, door in named if room == view.observation and door in doors)
            door = next(told, doors[self.usual])
        return door if self.options.format == "compact" else f"<action>{door}</action>"

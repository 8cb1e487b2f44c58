"""ALFWorld's chat messages: the room and what came of a command, one command in action tags as the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from envs.alfworld.grounding import Placing
from envs.alfworld.options import Options
from envs.alfworld.words import advice_prompt
from envs.base import EpisodeRecord, Prompt, View
from envs.commands import CommandStyle

_OLD_PLACING = "In this room, things are put down with: put OBJECT in/on PLACE"
_RULES = """\
You are a household robot in one room, and you have a task to do there. Every thing has a number, as in \
"mug 2" or "drawer 1"; always give the whole name.

Your commands:
go to PLACE
open PLACE
close PLACE
take OBJECT from PLACE
{placing}
examine PLACE or OBJECT
use LAMP
heat OBJECT with MICROWAVE
cool OBJECT with FRIDGE
clean OBJECT with SINKBASIN
slice OBJECT with KNIFE
look
inventory

You must stand at a place to open it or to use what is there, and a closed place shows nothing until it is \
opened. You can carry one object at a time. To heat, cool or clean an object, carry it there; to look at it \
in light, carry it to the lamp and use the lamp. "Nothing happens." means that the command wasn't possible.

Each turn you give one command. Think first as long as you need, then give your answer as \
<action>go to shelf 1</action>."""


def instruction(task: str, placing: Placing) -> str:
    """The task's sentence; for a game of the older grammar, also how things are put down in it."""
    return task if placing == "move" else f"{task}\n{_OLD_PLACING}"


@dataclass(frozen=True, slots=True)
class TextStyle(CommandStyle):
    """See `envs.chat` for the layout of the messages."""

    options: Options
    word: ClassVar[str] = "command"
    longest: ClassVar[int] = 200

    def rules(self, view: View) -> str:
        """The commands, in the grammar of the game that the view's instruction is from."""
        old = _OLD_PLACING in view.instruction
        return _RULES.format(placing="put OBJECT in/on PLACE" if old else "move OBJECT to PLACE")

    def advise_prompt(self, task: str, observation: str) -> Prompt:
        """In chat messages, or in words if the options say so."""
        if self.options.advice == "words":
            return advice_prompt(task, observation)
        return CommandStyle.advise_prompt(self, task, observation)

    def summarise(self, episode: EpisodeRecord) -> str:
        """The commands in order, those without effect marked, and what was seen last."""
        turns = [
            f"{number}. {step.actions[0] if step.actions else 'no command'}"
            + (" (nothing happened)" if step.invalid else "")
            for number, step in enumerate(episode.steps, 1)
        ]
        return "\n".join(
            ["Your commands:", *turns, "What you saw last:", self.situation(episode.final_observation)]
        )

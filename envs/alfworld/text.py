"""ALFWorld's chat messages: the room and what came of a command, one command in action tags as the answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from envs.alfworld.grounding import Placing
from envs.alfworld.options import Options
from envs.base import EpisodeRecord, Message, ParsedAction, Step, View
from envs.chat import ChatStyle, tagged
from envs.shortened import shortened, shortened_list

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
_SPACE = re.compile(r"\s+")
_LONGEST = 200  # no command of any game comes near


def instruction(task: str, placing: Placing) -> str:
    """The task's sentence; for a game of the older grammar, also how things are put down in it."""
    return task if placing == "move" else f"{task}\n{_OLD_PLACING}"


@dataclass(frozen=True, slots=True)
class TextStyle(ChatStyle):
    """See `envs.chat` for the layout of the messages."""

    options: Options

    @property
    def history_turns(self) -> int:
        """As the options say."""
        return self.options.history_turns

    def rules(self, view: View) -> str:
        """The commands, in the grammar of the game that the view's instruction is from."""
        old = _OLD_PLACING in view.instruction
        return _RULES.format(placing="put OBJECT in/on PLACE" if old else "move OBJECT to PLACE")

    def situation(self, observation: str) -> str:
        """What was seen, up to the limit of the options."""
        return shortened(observation, self.options.observation_limit)

    def outcome(self, step: Step) -> str:
        """Says that an answer held no command; for one that wasn't possible, the observation tells."""
        if step.invalid and not step.actions:
            return "Your last answer held no command in the asked form; nothing was done."
        return ""

    def act_prompt(self, view: View) -> tuple[Message, ...]:
        """As in `ChatStyle`; a list of possible commands is shown up to the limit of the options."""
        if view.admissible is not None:
            shown = shortened_list(view.admissible, self.options.admissible_limit)
            view = replace(view, admissible=shown)
        return ChatStyle.act_prompt(self, view)

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The command in the last action tag, in small letters and without a full stop.

        Invalid if there is no tag, nothing in it, or more than a command can be.
        """
        command = _SPACE.sub(" ", tagged(response, "action") or "").strip(" .").lower()
        if not command or len(command) > _LONGEST:
            return ParsedAction((), invalid=True)
        return ParsedAction((command,))

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

"""ScienceWorld's chat messages: what is seen, one action in action tags as the answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from envs.base import EpisodeRecord, Message, ParsedAction, Step, View
from envs.chat import ChatStyle, tagged
from envs.scienceworld.options import Options
from envs.shortened import shortened, shortened_list

_RULES = """\
You are a student in a house with a kitchen, a bathroom, a workshop, an art studio, a greenhouse and more \
rooms, and do a science task there.

Your actions (OBJ is a thing that you can see or carry, named as it is shown; if a name fits several things, \
say where it is, as in "orange in bowl"):
look around; look at OBJ; look in OBJ; examine OBJ; read OBJ
inventory (what you carry)
go to PLACE{teleport}
open OBJ; close OBJ; activate OBJ; deactivate OBJ
pick up OBJ; put down OBJ; move OBJ to OBJ
pour OBJ into OBJ; dunk OBJ into OBJ; mix OBJ; eat OBJ; flush OBJ
use OBJ on OBJ (also for measuring with an instrument){electric}
wait (ten steps of time); wait1 (one step)
focus on OBJ (shows which thing the task is about)
task (the task's text again)

Focus only on what the task asks for: focusing on a wrong thing ends the attempt as a failure. If a list of \
numbered choices is shown, answer with a number.

Each turn you do one action. Think first as long as you need, then give your answer as \
<action>open cupboard</action>."""
_SPACE = re.compile(r"\s+")
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class TextStyle(ChatStyle):
    """See `envs.chat` for the layout of the messages."""

    options: Options

    @property
    def history_turns(self) -> int:
        """As the options say."""
        return self.options.history_turns

    def rules(self, view: View) -> str:
        """The actions that the chosen simplifications leave, and the form of an answer."""
        made = self.options.simplifications
        teleport = "; teleport to PLACE (any room at once)" if {"easy", "teleportAction"} & {*made} else ""
        electric = (
            ""
            if "noElectricalAction" in made
            else "\nconnect OBJ to OBJ; disconnect OBJ (wires and the like)"
        )
        return _RULES.format(teleport=teleport, electric=electric)

    def situation(self, observation: str) -> str:
        """What was seen, up to the limit of the options."""
        return shortened(observation, self.options.observation_limit)

    def outcome(self, step: Step) -> str:
        """Says that an answer held no action; for one that wasn't understood, the observation tells."""
        if step.invalid and not step.actions:
            return "Your last answer held no action in the asked form; nothing was done."
        return ""

    def act_prompt(self, view: View) -> tuple[Message, ...]:
        """As in `ChatStyle`; a list of possible actions is shown up to the limit of the options."""
        if view.admissible is not None:
            shown = shortened_list(view.admissible, self.options.admissible_limit)
            view = replace(view, admissible=shown)
        return ChatStyle.act_prompt(self, view)

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The action in the last action tag, in small letters and without a full stop.

        Invalid if there is no tag, nothing in it, or more than an action can be.
        """
        action = _SPACE.sub(" ", tagged(response, "action") or "").strip(" .").lower()
        if not action or len(action) > _LONGEST:
            return ParsedAction((), invalid=True)
        return ParsedAction((action,))

    def summarise(self, episode: EpisodeRecord) -> str:
        """The actions in order, those not understood marked, rises and falls of the score, the last sight."""
        turns = [
            f"{number}. {step.actions[0] if step.actions else 'no action'}{_remark(step)}"
            for number, step in enumerate(episode.steps, 1)
        ]
        return "\n".join(
            ["Your actions:", *turns, "What you saw last:", self.situation(episode.final_observation)]
        )


def _remark(step: Step) -> str:
    if step.invalid:
        return " (not understood)"
    return f" (score {'rose' if step.reward > 0 else 'fell'})" if step.reward else ""

"""ScienceWorld's chat messages: what is seen, one action in action tags as the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from envs.base import EpisodeRecord, Step, View
from envs.commands import CommandStyle
from envs.scienceworld.options import Options

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


@dataclass(frozen=True, slots=True)
class TextStyle(CommandStyle):
    """See `envs.chat` for the layout of the messages."""

    options: Options
    word: ClassVar[str] = "action"
    longest: ClassVar[int] = 500

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

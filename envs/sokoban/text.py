"""Sokoban's chat messages; moves are given in action tags after free thought."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envs.base import EpisodeRecord, ParsedAction, Step, View
from envs.chat import ChatStyle, tagged
from envs.sokoban.options import Options
from envs.sokoban.room import MOVES

_RULES = """\
You play Sokoban in a room of {size} rows and {size} columns. Push every box onto a target.

Signs in the room:
# a wall
_ free floor
O a target without a box
X a box that is not on a target
√ a box on a target
P you
S you, standing on a target

You move up, down, left or right. Moving against a box pushes it one cell further, if the cell behind it is \
neither a wall nor another box; otherwise nothing happens. Boxes can be pushed but never pulled, so a box in \
a corner is lost.

{turn} Think first as long as you need, then give your answer as <action>{example}</action>."""
_SEPARATORS = re.compile(r"[\s,;]+")


@dataclass(frozen=True, slots=True)
class TextStyle(ChatStyle):
    """See `envs.chat` for the layout of the messages."""

    options: Options

    @property
    def history_turns(self) -> int:
        """As the options say."""
        return self.options.history_turns

    def rules(self, view: View) -> str:
        """The game, its signs, and the form of an answer."""
        most = self.options.max_moves_per_turn
        turn, example = "Each turn you make one move.", "up"
        if most > 1:
            turn = f"Each turn you make up to {most} moves, which are made in order."
            example = ", ".join(("up", "left", "left")[:most])
        return _RULES.format(size=self.options.rows, turn=turn, example=example)

    def situation(self, observation: str) -> str:
        """The room under a heading."""
        return f"The room:\n{observation}"

    def outcome(self, step: Step) -> str:
        """Says that an answer couldn't be read; all else can be seen."""
        if step.invalid:
            return "Your last answer held no moves in the asked form; nothing was moved."
        return ""

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The moves in the last action tag, the first `max_moves_per_turn` of them.

        Invalid if there is no tag, nothing in it, or anything in it that isn't a move.
        """
        names = [name for name in _SEPARATORS.split((tagged(response, "action") or "").lower()) if name]
        if not names or any(name not in MOVES for name in names):
            return ParsedAction((), invalid=True)
        return ParsedAction(tuple(names[: self.options.max_moves_per_turn]))

    def summarise(self, episode: EpisodeRecord) -> str:
        """The moves of each turn and the final room."""
        turns = [
            f"Turn {number}: {'nothing' if step.invalid else ', '.join(step.actions)}"
            for number, step in enumerate(episode.steps, 1)
        ]
        return "\n".join(["Your moves:", *turns, "The room at the end:", episode.final_observation])

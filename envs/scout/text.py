"""The text format: chat messages, the field as a map of one line a row, answers in tags after thought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envs.base import EpisodeRecord, ParsedAction, View
from envs.chat import ChatStyle, tagged
from envs.scout.env import LOOK
from envs.scout.field import NAMES, cell_words
from envs.scout.options import Options

_RULES = """\
You look for a treasure in a field of {size} rows and {size} columns. It lies directly north, east, south or \
west of one of the landmarks, never under one.

Signs on the map:
{signs}
. grass
o a hole that you dug today, with nothing in it
X the treasure

Each turn you either dig in one cell or climb the tower and look. {digs} From the tower you see beside which \
landmark the treasure lies, but the climb takes the rest of the day, so the attempt ends without the treasure.

Rows are counted from the top (north) and columns from the left (west), both from 1. Think first as long as \
you need, then answer <action>(row,column)</action> to dig, for example <action>(2,1)</action>, or \
<action>look</action>."""
_SEEN = "From the tower you saw the treasure: "


@dataclass(frozen=True, slots=True)
class Render:
    """Draws the field. Picklable."""

    size: int

    def __call__(
        self, landmarks: tuple[int, ...], holes: tuple[int, ...], found: bool, seen: str | None
    ) -> str:
        signs = ["."] * self.size**2
        for hole in holes:
            signs[hole] = "o"
        for name, at in zip(NAMES, landmarks, strict=False):
            signs[at] = name[0].upper()
        if found:
            signs[holes[-1]] = "X"
        lines = [
            f"Row {row + 1}: " + " ".join(signs[row * self.size : (row + 1) * self.size])
            for row in range(self.size)
        ]
        if seen:
            side, name = seen.split("-of-")
            lines.append(f"{_SEEN}it lies directly {side} of the {name}.")
        return "\n".join(lines)


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
        digs = self.options.digs
        often = "You can dig once." if digs == 1 else f"You can dig {digs} times."
        signs = "\n".join(f"{name[0].upper()} the {name}" for name in NAMES[: self.options.landmarks])
        return _RULES.format(size=self.options.size, signs=signs, digs=often)

    def situation(self, observation: str) -> str:
        """The map under a heading."""
        return f"The field:\n{observation}"

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """What the last action tag names; invalid if there is none, or no such cell."""
        action = "".join((tagged(response, "action") or "").split())
        if action == LOOK or action in cell_words(self.options.size):
            return ParsedAction((action,))
        return ParsedAction((), invalid=True)

    def summarise(self, episode: EpisodeRecord) -> str:
        """What was done, and the map at the end, which shows the holes and says what was seen."""
        done = [action for step in episode.steps for action in step.actions if not step.invalid]
        digs = [action for action in done if action != LOOK]
        lines = [f"You dug at {', '.join(digs)}." if digs else "You did not dig."]
        lines += ["You climbed the tower to look."] if LOOK in done else []
        return "\n".join([*lines, "The field at the end:", episode.final_observation])

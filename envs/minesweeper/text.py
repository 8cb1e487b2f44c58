"""The text format: chat messages, boards of one line a row, answers in action tags after free thought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envs.base import EpisodeRecord, ParsedAction, Step, View
from envs.chat import ChatStyle, tagged
from envs.minesweeper.board import MINE, grid
from envs.minesweeper.options import Options

_RULES = """\
You play MineSweeper on a board of {size} rows and {size} columns that hides {mines} {noun}. Open every cell \
that has no mine. Opening a mine loses the game.

Signs on the board:
? a cell that is still closed
. an open cell with no mine among its up to eight neighbours
1 to 8 an open cell with that many mines among its neighbours
* a mine that was opened

Opening a cell with no mine around it opens its neighbours too. Opening an open cell does nothing and wastes \
a turn.

Each turn you open one closed cell. Rows are counted from the top and columns from the left, both from 1. \
Think first as long as you need, then give the cell as <action>(row,column)</action>, for example \
<action>(2,1)</action>."""


def render(shown: Sequence[str]) -> str:
    """A board as text: `Row 1: ? ? 1 .` and so on."""
    size = int(len(shown) ** 0.5)
    return "\n".join(
        f"Row {row + 1}: " + " ".join(shown[row * size : (row + 1) * size]) for row in range(size)
    )


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
        mines = self.options.mines
        return _RULES.format(size=self.options.size, mines=mines, noun="mine" if mines == 1 else "mines")

    def situation(self, observation: str) -> str:
        """The board under a heading."""
        return f"The board:\n{observation}"

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The cell in the last action tag; invalid if there is none, or no such cell on the board."""
        cell = "".join((tagged(response, "action") or "").split())
        if cell in grid(self.options.size).index:
            return ParsedAction((cell,))
        return ParsedAction((), invalid=True)

    def summarise(self, episode: EpisodeRecord) -> str:
        """The clicks in order, the mine that was hit, and the final board, which shows all they opened."""
        clicks = [action for step in episode.steps for action in step.actions if not step.invalid]
        faces = [line.split()[2:] for line in episode.final_observation.splitlines()]
        hit = [
            f"({r + 1},{c + 1})" for r, row in enumerate(faces) for c, face in enumerate(row) if face == MINE
        ]
        lines = [f"You opened: {', '.join(clicks) or 'nothing'}."]
        lines += [f"{cell} was a mine." for cell in hit]
        return "\n".join([*lines, "The board at the end:", episode.final_observation])

    def outcome(self, step: Step) -> str:
        """Says that an answer couldn't be read, or that the cell was open already."""
        if step.invalid:
            return "Your last answer named no cell of the board in the asked form; nothing was opened."
        faces = [face for line in step.observation.splitlines() for face in line.split()[2:]]
        index = grid(self.options.size).index
        if any(cell in index and faces[index[cell]] != "?" for cell in step.actions):
            return f"{step.actions[-1]} was open already; nothing changed."
        return ""

"""Chat prompts of worlds that are played by one free command a turn, and tell in words what came of it.

A style says its rules, its word for a command, and how an episode is summed up; its options have
`history_turns`, and limits in characters for an observation and for the list of possible commands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

from envs.base import Message, ParsedAction, Step, View
from envs.chat import ChatStyle, tagged
from envs.shortened import shortened, shortened_list

_SPACE = re.compile(r"\s+")


class Limits(Protocol):
    """What a style needs of its options."""

    @property
    def history_turns(self) -> int: ...

    @property
    def observation_limit(self) -> int: ...

    @property
    def admissible_limit(self) -> int: ...


class CommandStyle(ChatStyle):
    """See `envs.chat` for the layout of the messages."""

    word: ClassVar[str]
    """What a command is called."""
    longest: ClassVar[int]
    """Characters that no command of any game comes near."""
    options: Limits

    @property
    def history_turns(self) -> int:
        """As the options say."""
        return self.options.history_turns

    def situation(self, observation: str) -> str:
        """What was seen, up to the limit of the options."""
        return shortened(observation, self.options.observation_limit)

    def outcome(self, step: Step) -> str:
        """Says that an answer held no command; for one that wasn't possible, the observation tells."""
        if step.invalid and not step.actions:
            return f"Your last answer held no {self.word} in the asked form; nothing was done."
        return ""

    def act_prompt(self, view: View) -> tuple[Message, ...]:
        """As in `ChatStyle`; a list of possible commands is shown up to the limit of the options."""
        if view.admissible is not None:
            shown = shortened_list(view.admissible, self.options.admissible_limit)
            view = replace(view, admissible=shown)
        return super().act_prompt(view)

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The command in the last action tag, in small letters and without a full stop.

        Invalid if there is no tag, nothing in it, or more than a command can be.
        """
        command = _SPACE.sub(" ", tagged(response, "action") or "").strip(" .").lower()
        if not command or len(command) > self.longest:
            return ParsedAction((), invalid=True)
        return ParsedAction((command,))

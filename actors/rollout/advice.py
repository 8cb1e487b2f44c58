"""The advisor of an agent's trials: asks a memory-policy generator, and goes without where none answers.

An answer that doesn't come within the client's deadline, also because generators died or none is there, is a
late turn: the trial goes on without a hint, and the turn says so (it is nobody's, and has no ids).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from actors.rollout.advising import AdviceRequest, Advised
from actors.rollout.protocols import Situation
from agentmem.chat import ChatCodec
from agentmem.failures import InfrastructureError, ModelError
from agentmem.memory.advisor import late_turn
from agentmem.trajectory import Ticket, Turn
from agentmem.vision.picture import Picture
from envs.base import PromptStyle, View
from envs.task_text import task_text

log = logging.getLogger(__name__)

TRIED = ("Look behind the first door.", "Go back and wait there.")
"""Hints that a chat template is tried with."""


def check_shows_hints(codec: ChatCodec, style: PromptStyle) -> None:
    """Raises ModelError for a chat template that fails on a prompt with a hint, or drops it."""
    try:
        shown = {codec.encode(style.act_prompt(View(observation="a room", hint=hint))) for hint in TRIED}
    except Exception as error:  # jinja's errors have no common base with the tokenizer's
        said = " ".join(str(error).split())
        raise ModelError(
            f"model {codec.path}: its chat template fails on a prompt with a hint: {said}"
        ) from None
    if len(shown) < len(TRIED):
        raise ModelError(
            f"model {codec.path}: its chat template drops what a user message holds before the situation, so "
            "a memory policy's hints wouldn't reach this agent"
        )


class Generators(Protocol):
    """Whoever answers: a client of generators, or one in this process."""

    def next_id(self) -> str: ...

    async def ask(self, request: AdviceRequest) -> Advised:
        """Raises InfrastructureError if no answer came in time."""
        ...


@dataclass(frozen=True, slots=True)
class AgentAdvice:
    """What all trials of an agent share."""

    generators: Generators
    environment: str
    style: PromptStyle
    every_episode: bool = False

    def of(self, ticket: Ticket) -> TrialAdvisor | None:
        """The advisor of one trial; None if its mode asks for none."""
        return TrialAdvisor(self, ticket) if ticket.mode.advice else None


@dataclass(frozen=True, slots=True)
class TrialAdvisor:
    """See `protocols.Advisor`."""

    shared: AgentAdvice
    ticket: Ticket

    @property
    def every_episode(self) -> bool:
        """See the protocol."""
        return self.shared.every_episode

    async def advise(self, situation: Situation) -> Turn:
        """See the protocol."""
        shared, ticket = self.shared, self.ticket
        request = AdviceRequest(
            id=shared.generators.next_id(),
            task=task_text(
                shared.environment,
                shared.style.of(ticket.task.domain),
                situation.instruction,
                situation.observation,
            ),
            observation=situation.observation,
            domain=ticket.task.domain,
            branch=ticket.mode.advice,
            split=ticket.task.split,
            image=None if situation.screenshot is None else Picture.of_png(situation.screenshot),
        )
        try:
            return (await shared.generators.ask(request)).turn
        except InfrastructureError as error:
            log.warning("%s goes without advice: %s", ticket.id, error)
            return late_turn(situation.observation)

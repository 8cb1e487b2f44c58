"""The small protocols that a trial is played over: environment, policy, memory, and, if there are
any, tips and an advisor.

Errors, the same for all: an `InfrastructureError` (EnvError, EngineError) ends this attempt of the
trial, which is retried elsewhere. Any other exception is a data failure: it isn't retried, and it surfaces. A
model's own doing (an action that can't be read, a prompt that has grown too long) is never an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from agentmem.sampling import FinishReason, Sampling
from agentmem.trajectory import Episode, Turn, TurnKind
from envs.base import EpisodeMemory, EpisodeRecord, Instance, Prompt, PromptStyle, View


class Situation(msgspec.Struct, frozen=True, array_like=True):
    """An initial state, as `reset` and `restart` show it."""

    observation: str
    admissible: tuple[str, ...] | None = None
    instruction: str = ""
    screenshot: bytes | None = None
    """PNG, where the environment was asked for one."""


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """What a step led to. `over`: terminated by the environment; `truncated`: its own step limit."""

    observation: str
    reward: float
    over: bool
    truncated: bool = False
    success: bool = False
    invalid: bool = False
    score: float | None = None
    admissible: tuple[str, ...] | None = None


class Environment(Protocol):
    """One environment while one trial is played in it. Calls never overlap."""

    @property
    def style(self) -> PromptStyle: ...

    async def reset(self, instance: Instance) -> Situation:
        """Start an instance."""
        ...

    async def restart(self) -> Situation:
        """The identical initial state again."""
        ...

    async def step(self, action: str) -> Outcome:
        """Play one turn. An empty action is invalid, and still a turn."""
        ...

    async def summarise(self, record: EpisodeRecord) -> str:
        """The environment's short account of a finished episode."""
        ...

    async def close(self) -> None:
        """Give the environment back. Idempotent; never raises."""
        ...


class Reply(msgspec.Struct, frozen=True):
    """What a policy answered. Ids, log-probs and versions as the engine gave them, bit for bit; all three are
    absent where the policy isn't trained and has none."""

    text: str
    prompt_ids: tuple[int, ...] = ()
    response_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    versions: tuple[int, ...] | None = None
    sampling: Sampling | None = None
    forced: int = 0
    finish_reason: FinishReason = FinishReason.STOP
    student_prompt_ids: tuple[int, ...] | None = None


class Policy(Protocol):
    """Something that answers prompts. One that remembers what was said is made for each trial."""

    @property
    def name(self) -> str: ...

    async def respond(
        self, prompt: Prompt, kind: TurnKind, student: Prompt | None = None, view: View | None = None
    ) -> Reply | None:
        """One LLM call. None: prompt and response don't fit into the context, and nothing was asked.

        `student`: the prompt that the response is to be trained on, if that is another one; the reply then
        has its ids. It is never answered. `view`: what an act prompt was made from, for players that read no
        prompts.
        """
        ...


class Tips(Protocol):
    """EMPO²'s memory as one trial sees it: lessons that earlier trials left."""

    async def open(self) -> None:
        """Bring the book up to date. Called as an episode begins."""
        ...

    async def recall(self, view: View) -> tuple[tuple[str, ...], str]:
        """Tips for the situation of a view, best first, and the name of the book's state they are from."""
        ...

    def finished(self, episode: Episode, view: View) -> None:
        """An episode is over, as `view` shows it: have a tip written on it. Returns at once."""
        ...


class Advisor(Protocol):
    """Mem-π's memory policy as one trial sees it."""

    @property
    def every_episode(self) -> bool:
        """Whether it is asked before each episode; else once, before the first."""
        ...

    async def advise(self, situation: Situation) -> Turn:
        """Its advice on an initial state, as a turn whose `response` is the hint (empty: it abstains).

        Never late and never a failure of infrastructure: without an answer in time it abstains.
        """
        ...


class Memory(Protocol):
    """What an episode may know of earlier ones. A pure function, so a resumed trial remembers the same."""

    @property
    def needs_summary(self) -> bool:
        """Whether the environment has to summarise finished episodes."""
        ...

    @property
    def needs_reflection(self) -> bool:
        """Whether the policy has to reflect between episodes."""
        ...

    def recall(self, episodes: Sequence[Episode], reflections: Sequence[str]) -> tuple[EpisodeMemory, ...]:
        """The memory block of the episode that follows `episodes`; `reflections[n]` is on `episodes[n]`."""
        ...

"""A policy that an engine plays: prompt to ids, ids to sampled ids, sampled ids to text.

It owns the lengths: a prompt longer than `prompt_limit`, or that leaves less than the response's `max_tokens`
of the context, is answered by None *before* the engine is asked. Sampled ids are handed on untouched; the
text is made from them for the environment and for people only.

A policy is shared by many trials and remembers nothing. `conversation()` is the same policy for one trial: a
prompt of messages that goes on from the trial's last answered prompt keeps its ids and the sampled ones, so a
whole episode and its reflection are one sequence of tokens. A resumed trial starts a conversation afresh.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from actors.rollout.protocols import Reply
from agentmem.chat import Exchange, Rendered
from agentmem.sampling import Sample, Sampling
from agentmem.trajectory import TurnKind
from agentmem.vision.picture import Picture
from envs.base import Message, Prompt, View


class Sampler(Protocol):
    """The engine's side: tokens in, tokens out. Raises EngineError."""

    async def sample(
        self, prompt_ids: tuple[int, ...], sampling: Sampling, image: Picture | None = None
    ) -> Sample: ...


class Codec(Protocol):
    """The tokenizer's side."""

    @property
    def stop_token_ids(self) -> tuple[int, ...]: ...

    def encode(self, prompt: Prompt | Sequence[tuple[str, str]]) -> tuple[int, ...]: ...

    def extend(self, messages: tuple[Message, ...], after: Exchange | None) -> Rendered: ...

    def decode(self, ids: Sequence[int]) -> str: ...


class EnginePolicy:
    """One named policy with its sampling parameters by turn kind."""

    def __init__(
        self,
        name: str,
        sampler: Sampler,
        codec: Codec,
        sampling: Mapping[TurnKind, Sampling],
        *,
        context_length: int,
        prompt_limit: int | None = None,
    ) -> None:
        self.name = name
        self._sampler, self._codec = sampler, codec
        self._stops = frozenset(codec.stop_token_ids)
        limit = context_length if prompt_limit is None else prompt_limit
        self._by_kind = {
            kind: (with_stops(s, codec.stop_token_ids), min(limit, context_length - s.max_tokens))
            for kind, s in sampling.items()
        }

    async def respond(
        self, prompt: Prompt, kind: TurnKind, student: Prompt | None = None, view: View | None = None
    ) -> Reply | None:
        """See Policy."""
        trained_on = None if student is None else self._codec.encode(student)
        return await self.answer(self._codec.encode(prompt), kind, trained_on)

    def conversation(self) -> Conversation:
        """This policy for one trial."""
        return Conversation(self, self._codec)

    async def answer(
        self, ids: tuple[int, ...], kind: TurnKind, student: tuple[int, ...] | None = None
    ) -> Reply | None:
        """`respond` to a prompt of token ids."""
        sampling, longest = self._by_kind[kind]
        if len(ids) > longest:
            return None
        sample = await self._sampler.sample(ids, sampling)
        response = sample.response_ids
        said = response[:-1] if response and response[-1] in self._stops else response
        return Reply(
            self._codec.decode(said),
            ids,
            response,
            sample.logprobs,
            sample.versions,
            sampling,
            0,
            sample.finish_reason,
            student,
        )


class Conversation:
    """A policy that one trial talks to: it goes on from what was last said. Calls never overlap.

    Student prompts are a conversation of their own, with the same answers: they, too, extend each other.
    """

    __slots__ = ("_codec", "_last", "_policy", "_student", "name")

    def __init__(self, policy: EnginePolicy, codec: Codec) -> None:
        self.name = policy.name
        self._policy, self._codec = policy, codec
        self._last: Exchange | None = None
        self._student: Exchange | None = None

    def fork(self) -> Conversation:
        """The same conversation up to now; what is said in one isn't heard in the other."""
        other = Conversation(self._policy, self._codec)
        other._last, other._student = self._last, self._student
        return other

    async def respond(
        self, prompt: Prompt, kind: TurnKind, student: Prompt | None = None, view: View | None = None
    ) -> Reply | None:
        """See Policy."""
        if isinstance(prompt, str):
            return await self._policy.respond(prompt, kind, student)
        rendered = self._codec.extend(prompt, self._last)
        shown = None
        if student is not None:
            assert not isinstance(student, str)  # one style writes both
            shown = self._codec.extend(student, self._student)
        reply = await self._policy.answer(rendered.ids, kind, None if shown is None else shown.ids)
        if reply is not None and reply.response_ids is not None:
            self._last = Exchange(rendered, reply.response_ids, reply.text)
            if shown is not None:
                self._student = Exchange(shown, reply.response_ids, reply.text)
        return reply


def with_stops(sampling: Sampling, stops: tuple[int, ...]) -> Sampling:
    """The same, ended by a model's own stop tokens, too."""
    return replace(sampling, stop_token_ids=tuple(sorted({*sampling.stop_token_ids, *stops})))

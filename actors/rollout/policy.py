"""A policy that an engine plays: prompt to ids, ids to sampled ids, sampled ids to text.

It owns the lengths: a prompt longer than `prompt_limit`, or that leaves less than the response's `max_tokens`
of the context, is answered by None *before* the engine is asked. Sampled ids are handed on untouched; the
text is made from them for the environment and for people only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from actors.rollout.protocols import Reply
from agentmem.sampling import Sample, Sampling
from agentmem.trajectory import TurnKind
from envs.base import Prompt


class Sampler(Protocol):
    """The engine's side: tokens in, tokens out. Raises EngineError."""

    async def sample(self, prompt_ids: tuple[int, ...], sampling: Sampling) -> Sample: ...


class Codec(Protocol):
    """The tokenizer's side."""

    @property
    def stop_token_ids(self) -> tuple[int, ...]: ...

    def encode(self, prompt: Prompt) -> tuple[int, ...]: ...

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
            kind: (_with_stops(s, codec.stop_token_ids), min(limit, context_length - s.max_tokens))
            for kind, s in sampling.items()
        }

    async def respond(self, prompt: Prompt, kind: TurnKind) -> Reply | None:
        """See Policy."""
        sampling, longest = self._by_kind[kind]
        ids = self._codec.encode(prompt)
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
        )


def _with_stops(sampling: Sampling, stops: tuple[int, ...]) -> Sampling:
    return Sampling(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        max_tokens=sampling.max_tokens,
        stop_token_ids=tuple(sorted({*sampling.stop_token_ids, *stops})),
    )

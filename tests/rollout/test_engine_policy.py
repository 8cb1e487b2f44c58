"""A policy that an engine plays: lengths are checked before the call, ids pass through untouched."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from actors.rollout.policy import EnginePolicy
from agentmem.chat import Exchange, Rendered
from agentmem.sampling import FinishReason, Sample, Sampling
from agentmem.trajectory import TurnKind
from envs.base import Message, Prompt


class Letters:
    """One token a letter; 0 ends a response. Decoding merges, so encoding a text again gives other ids."""

    stop_token_ids = (0,)

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        assert isinstance(prompt, str)
        return tuple(prompt.encode())

    def extend(self, messages: Sequence[Message], after: Exchange | None) -> Rendered:
        raise NotImplementedError

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode().replace("haha", "HA")


class Engine:
    def __init__(self, *answer: int) -> None:
        self.answer = answer
        self.asked: list[tuple[tuple[int, ...], Sampling]] = []

    async def sample(self, prompt_ids: tuple[int, ...], sampling: Sampling) -> Sample:
        self.asked.append((prompt_ids, sampling))
        n = len(self.answer)
        return Sample(
            id="1",
            response_ids=self.answer,
            logprobs=(-0.1,) * n,
            versions=(5,) * n,
            finish_reason=FinishReason.STOP,
        )


SAMPLING = {TurnKind.ACT: Sampling(max_tokens=8), TurnKind.REFLECT: Sampling(max_tokens=16)}


async def test_sampled_ids_are_handed_on_bit_for_bit_and_the_stop_token_is_no_text() -> None:
    engine = Engine(*b"haha", 0)
    policy = EnginePolicy("agent", engine, Letters(), SAMPLING, context_length=64)
    reply = await policy.respond("say", TurnKind.ACT)
    assert reply is not None
    assert reply.response_ids == (*b"haha", 0)
    assert reply.versions == (5,) * 5
    assert reply.text == "HA"
    assert reply.sampling == engine.asked[0][1]
    assert reply.sampling.stop_token_ids == (0,)


@pytest.mark.parametrize(
    ("prompt_limit", "kind", "length", "fits"),
    [
        (None, TurnKind.ACT, 56, True),
        (None, TurnKind.ACT, 57, False),
        (None, TurnKind.REFLECT, 48, True),
        (None, TurnKind.REFLECT, 49, False),
        (20, TurnKind.ACT, 20, True),
        (20, TurnKind.ACT, 21, False),
    ],
)
async def test_a_prompt_that_is_too_long_never_reaches_the_engine(
    prompt_limit: int | None, kind: TurnKind, length: int, fits: bool
) -> None:
    engine = Engine(0)
    policy = EnginePolicy("agent", engine, Letters(), SAMPLING, context_length=64, prompt_limit=prompt_limit)
    reply = await policy.respond("x" * length, kind)
    assert (reply is not None) == fits
    assert len(engine.asked) == int(fits)

"""A frozen agent behind a real endpoint, and what it makes of hints that it can't take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.rollout.endpoint import EndpointPolicy
from agentmem.config.endpoint import EndpointConfig
from agentmem.endpoint import Endpoint
from agentmem.failures import EndpointRefusal, EndpointTooLong
from agentmem.sampling import Sampling
from agentmem.trajectory import TurnKind
from envs.base import Message, View
from envs.doors import Options
from envs.doors.text import TextStyle
from tests.standins.serving import as_json
from tests.standins.writer import WriterEndpoint

STYLE = TextStyle(Options(format="text"))
HINT = "In the hall, open the red door. " * 30


@pytest.fixture
def server() -> Iterator[WriterEndpoint]:
    with WriterEndpoint() as server:
        yield server


def prompt(hint: str | None) -> tuple[Message, ...]:
    asked = STYLE.act_prompt(View(observation="hall", hint=hint))
    assert not isinstance(asked, str)
    return tuple(asked)


async def respond(server: WriterEndpoint, hint: str | None, context: int | None = None) -> str | None:
    config = EndpointConfig(url=server.base_url, key_env=None)
    async with Endpoint(config, "frozen", context_length=context) as endpoint:
        policy = EndpointPolicy("agent", endpoint, {TurnKind.ACT: Sampling(max_tokens=16)})
        reply = await policy.conversation().respond(prompt(hint), TurnKind.ACT)
    return None if reply is None else reply.text


async def test_a_hint_is_in_the_messages_and_without_one_they_are_those_without_memory(
    server: WriterEndpoint,
) -> None:
    assert await respond(server, HINT)
    assert await respond(server, None)
    advised, alone = server.asked
    assert HINT.strip() in advised["messages"][-1]["content"]
    assert "Hint" not in str(alone["messages"])
    assert advised["messages"][0] == alone["messages"][0]


async def test_a_hint_that_the_agents_context_has_no_room_for_is_not_sent(server: WriterEndpoint) -> None:
    short = sum(len(message.content) for message in prompt(None)) // 2
    assert await respond(server, HINT, context=short) is None
    assert server.asked == []
    assert await respond(server, None, context=short)


@pytest.mark.parametrize(
    "error",
    [
        {"message": "too many", "code": "context_length_exceeded"},
        {"message": "This model's maximum context length is 4096 tokens. Please reduce the prompt."},
    ],
)
async def test_an_endpoint_that_says_the_prompt_is_too_long_is_taken_at_its_word(
    server: WriterEndpoint, error: dict[str, str]
) -> None:
    server.troubles = [as_json({"error": error}, 400)]
    assert await respond(server, HINT) is None


async def test_any_other_refusal_is_an_error(server: WriterEndpoint) -> None:
    server.troubles = [as_json({"error": {"message": "against the rules"}}, 400)]
    with pytest.raises(EndpointRefusal, match="against the rules") as told:
        await respond(server, HINT)
    assert not isinstance(told.value, EndpointTooLong)

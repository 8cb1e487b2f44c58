"""A language model that is talked to in text: messages in, an answer out.

For models that nobody trains (an endpoint, a bank's writer): what a trained policy samples stays token ids.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from agentmem.sampling import FinishReason

Messages = tuple[tuple[str, str], ...]
"""(role, content) of each message."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What was said, and what it took. Token counts are None where the model's server doesn't say."""

    text: str
    finish_reason: FinishReason = FinishReason.STOP
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class ChatModel(Protocol):
    """Safe for concurrent use in one event loop."""

    @property
    def model(self) -> str:
        """What it is called, as records name it."""
        ...

    @property
    def concurrency(self) -> int:
        """Requests that it works on at once; more are welcome and wait."""
        ...

    def fits(self, messages: Messages, max_tokens: int) -> bool:
        """Whether prompt and answer together are short enough, to the best of its knowledge."""
        ...

    async def answer(self, messages: Messages, *, max_tokens: int, temperature: float) -> Answer:
        """Raises EndpointRefusal for this request alone, any other AgentMemError if it can't serve."""
        ...

"""A frozen agent behind an OpenAI-compatible endpoint as a policy: messages out, text back, no token ids.

A prompt that is too long, by our guess or in the endpoint's words, is no request, as with an engine: what it
shows is left out piece by piece, the hint last. Any other request that the endpoint refuses fails its trial
for good (data); an endpoint that gives no answer fails this attempt (infrastructure), as an engine would.
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.rollout.protocols import Reply
from agentmem.chat.answer import ChatModel
from agentmem.failures import EndpointTooLong
from agentmem.sampling import Sampling
from agentmem.trajectory import TurnKind
from envs.base import Prompt, View


class EndpointPolicy:
    """See `protocols.Policy`. Of the sampling parameters the endpoint is told temperature and length."""

    def __init__(self, name: str, model: ChatModel, sampling: Mapping[TurnKind, Sampling]) -> None:
        self.name, self._model, self._by_kind = name, model, dict(sampling)

    def conversation(self) -> EndpointPolicy:
        """For one trial: the messages themselves say what was said."""
        return self

    async def respond(
        self, prompt: Prompt, kind: TurnKind, student: Prompt | None = None, view: View | None = None
    ) -> Reply | None:
        """See Policy."""
        assert not isinstance(prompt, str)  # refused before anything starts
        sampling = self._by_kind[kind]
        messages = tuple((message.role, message.content) for message in prompt)
        if not self._model.fits(messages, sampling.max_tokens):
            return None
        try:
            answer = await self._model.answer(
                messages, max_tokens=sampling.max_tokens, temperature=sampling.temperature
            )
        except EndpointTooLong:
            return None
        return Reply(answer.text, finish_reason=answer.finish_reason)

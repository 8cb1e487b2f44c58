"""One engine in this process as a `ChatModel`: messages in, text out, for models that nobody trains.

No Ray, no other process: it is for programs whose whole work is asking one model (a bank's writer).
"""

from __future__ import annotations

import itertools
from pathlib import Path

from actors.engine.factory import build_engine
from actors.engine.protocol import EngineConfig
from agentmem.chat import ChatCodec
from agentmem.chat.answer import Answer, Messages
from agentmem.failures import EndpointRefusal, ModelError
from agentmem.sampling import SampleRequest, Sampling


class EngineText:
    """Start it, ask it, close it, all in one event loop. `model`: what it is called in records."""

    def __init__(self, config: EngineConfig, codec: ChatCodec, model: str) -> None:
        """Raises ModelError for a model without a chat template."""
        if not codec.has_chat_template:
            raise ModelError(f"model {Path(config.model)}: no chat template, so it can't be talked to")
        self._engine = build_engine(config, name="writer")
        self._codec, self._model = codec, model
        self._longest, self._at_once = config.max_model_len, config.max_num_seqs
        self._numbers = itertools.count()

    @property
    def model(self) -> str:
        """See ChatModel."""
        return self._model

    @property
    def concurrency(self) -> int:
        """Sequences of one step."""
        return self._at_once

    async def start(self) -> None:
        """Load the model. Raises ModelError, ConfigError or EngineError."""
        await self._engine.start()

    def fits(self, messages: Messages, max_tokens: int) -> bool:
        """Exactly."""
        return len(self._codec.encode(messages)) + max_tokens <= self._longest

    async def answer(self, messages: Messages, *, max_tokens: int, temperature: float) -> Answer:
        """Raises EndpointRefusal for messages that don't fit, EngineError if the engine can't serve."""
        ids = self._codec.encode(messages)
        if len(ids) + max_tokens > self._longest:
            raise EndpointRefusal(
                f"model {self._model}: {len(ids)} prompt ids and {max_tokens} new ones are more than its "
                f"context of {self._longest}"
            )
        stops = self._codec.stop_token_ids
        sampling = Sampling(temperature=temperature, max_tokens=max_tokens, stop_token_ids=stops)
        request = SampleRequest(id=str(next(self._numbers)), prompt_ids=ids, sampling=sampling)
        sample = await self._engine.sample(request)
        said = sample.response_ids
        if said and said[-1] in stops:
            said = said[:-1]
        return Answer(
            text=self._codec.decode(said),
            finish_reason=sample.finish_reason,
            prompt_tokens=len(ids),
            completion_tokens=len(sample.response_ids),
        )

    async def close(self) -> None:
        """End the engine. Idempotent."""
        await self._engine.close()

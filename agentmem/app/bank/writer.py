"""A bank's writer from its settings: an endpoint, or an engine in this process."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from agentmem.chat.answer import ChatModel
from agentmem.config import PolicyConfig
from agentmem.config.bank import BankConfig
from agentmem.endpoint import Endpoint
from agentmem.failures import ConfigError

CHATTING = "sokoban"
"""An environment whose prompts are chat messages: a writer's model must serve those."""


@contextlib.asynccontextmanager
async def open_writer(config: BankConfig, say: Callable[[str], None]) -> AsyncIterator[ChatModel]:
    """Raises ConfigError, ModelError or EngineError if it can't serve."""
    if config.endpoint is not None:
        async with Endpoint(config.endpoint, config.model, context_length=config.context_length) as endpoint:
            yield endpoint
        return
    from actors.engine.protocol import EngineConfig
    from actors.engine.text import EngineText
    from agentmem.chat import ChatCodec

    engine, path = config.engine, local_model(config)
    say(f"starting an engine with {config.model}")
    text = EngineText(
        EngineConfig(
            model=str(path),
            kind=engine.backend,
            dtype=config.dtype,
            max_model_len=config.context_length,
            max_num_seqs=engine.max_num_seqs,
            tensor_parallel_size=engine.tensor_parallel,
            kv_cache_gib=engine.kv_cache_gib,
            gpu_memory_utilization=engine.gpu_memory_utilization,
            enforce_eager=engine.enforce_eager or None,
            start_s=engine.start_timeout_s,
            request_s=engine.sample_timeout_s,
        ),
        ChatCodec(path, template_options=config.template_options),
        config.model,
    )
    try:
        await text.start()
        yield text
    finally:
        await text.close()


def local_model(config: BankConfig) -> Path:
    """The directory of an engine's model, known to serve chat messages. Raises ModelError."""
    from agentmem.app.models.resolve import resolve

    if config.model == "tiny":
        raise ConfigError(
            "model is 'tiny': such a model knows the words of one game; a writer is a language model "
            "('smollm2', a Hugging Face name, a directory), or one behind --url"
        )
    policy = PolicyConfig(
        model=config.model,
        trained=False,
        dtype=config.dtype,
        context_length=config.context_length,
        template_options=config.template_options,
    )
    return resolve(policy, CHATTING, {})

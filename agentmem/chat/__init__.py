"""Prompts to token ids and back."""

from agentmem.chat.codec import ChatCodec, MessageLike, PromptLike, Servable
from agentmem.chat.exchange import Exchange, Rendered

__all__ = ["ChatCodec", "Exchange", "MessageLike", "PromptLike", "Rendered", "Servable"]

"""Prompts to token ids and back."""

from agentmem.chat.codec import ChatCodec, MessageLike, PromptLike, Servable

__all__ = ["ChatCodec", "MessageLike", "PromptLike", "Servable"]

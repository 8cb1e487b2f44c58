"""Prompts to token ids and back."""

from agentmem.chat.codec import ChatCodec, MessageLike, PromptLike, Servable
from agentmem.chat.cut import full_sentences, keep_ends
from agentmem.chat.decision import Decision, DecisionTokens
from agentmem.chat.exchange import Exchange, Rendered

__all__ = [
    "ChatCodec",
    "Decision",
    "DecisionTokens",
    "Exchange",
    "MessageLike",
    "PromptLike",
    "Rendered",
    "Servable",
    "full_sentences",
    "keep_ends",
]

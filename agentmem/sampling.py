"""What is asked of an engine and what it answers: tokens in, tokens out."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from agentmem.vision.picture import Picture


class FinishReason(StrEnum):
    """Why a response ended."""

    STOP = "stop"
    """The model wrote a stop token (it is the last response id)."""
    LENGTH = "length"
    """`max_tokens` were sampled."""


class Sampling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sampling parameters, stamped on each turn: the learner applies the same to its own log-probabilities.

    Log-probabilities are always *processed* ones: of the distribution really sampled from, after temperature
    (and top-p, top-k). `top_k = 0` means all tokens.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 16
    stop_token_ids: tuple[int, ...] = ()
    allowed_ids: tuple[int, ...] = ()
    """The only tokens that may be sampled: log-probabilities are those of a choice among them. Empty: all."""

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise ValueError(f"temperature is {self.temperature}: must be > 0 (sampling, not argmax)")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}: must be in (0, 1]")
        if self.top_k < 0:
            raise ValueError(f"top_k is {self.top_k}: must be >= 0 (0: all tokens)")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens is {self.max_tokens}: must be >= 1")
        if len(set(self.allowed_ids)) != len(self.allowed_ids):
            raise ValueError(f"allowed_ids is {self.allowed_ids}: each token once")


class SampleRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One LLM call. `id` is unique among the requests of a client."""

    id: str
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    image: Picture | None = None
    """What the prompt's places for a picture stand for; a model that reads text alone refuses it."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's answer: sampled ids bit for bit, and for each its processed log-probability (natural log)
    under the weights that sampled it, and the version of these weights."""

    id: str
    response_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    versions: tuple[int, ...]
    finish_reason: FinishReason

    def __post_init__(self) -> None:
        if not len(self.response_ids) == len(self.logprobs) == len(self.versions):
            raise ValueError(
                f"sample {self.id}: {len(self.response_ids)} ids, {len(self.logprobs)} log-probs, "
                f"{len(self.versions)} versions: must be equally many"
            )

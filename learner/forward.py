"""The model's forward pass with logits at chosen positions only, and log-probabilities as the engine reports
them.

Shapes: B sequences, L positions, N chosen positions, V vocabulary. Log-probabilities are natural logarithms
of the *processed* distribution: logits divided by the temperature, then cut to top-k, then to top-p, then
renormalised (the order of vLLM and of Hugging Face). With a temperature of 1 and no cuts they are the model's
own.

Why chosen positions: a turn of one response token on a prompt of ten needs one row of logits out of eleven,
and the output layer is most of a small model. Sequences are padded on the right and the attention is causal,
so no mask is needed for padding: what stands behind a position can't reach it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from agentmem.failures import AgentMemError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from agentmem.sampling import Sampling


class UnsupportedSampling(AgentMemError):
    """Tokens were sampled in a way whose probabilities the learner can't reproduce."""


@dataclass(frozen=True, slots=True)
class Processing:
    """The part of `Sampling` that shapes probabilities. `top_k = 0`: all tokens."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0

    @classmethod
    def of(cls, sampling: Sampling | None) -> Processing:
        """Of a turn's stamp. A trained turn without a stamp is refused: its probabilities are unknown."""
        if sampling is None:
            raise UnsupportedSampling(
                "a turn of the trained policy has no sampling parameters: they must be stamped on it"
            )
        if sampling.allowed_ids:
            raise UnsupportedSampling(
                f"a turn was sampled among the tokens {list(sampling.allowed_ids)} alone (allowed_ids): only "
                "the decision of a memory policy is, and it is trained as a decision"
            )
        return cls(sampling.temperature, sampling.top_p, sampling.top_k)

    @property
    def cuts(self) -> bool:
        """Whether some tokens can have probability zero."""
        return self.top_p < 1.0 or self.top_k > 0


def output_layer(model: nn.Module) -> nn.Module:
    """The module that turns hidden states into logits, under any wrapper (LoRA, value head)."""
    find: Any = getattr(model, "get_output_embeddings", None)
    layer: nn.Module | None = find() if find is not None else None
    if layer is None:
        raise AgentMemError(f"{type(model).__name__} has no output layer: a causal language model is needed")
    return layer


@contextmanager
def _only_at(layer: nn.Module, index: Tensor, seen: dict[str, Tensor]) -> Iterator[None]:
    """While inside, `layer` gets only the hidden states at the flat positions `index`; `seen` gets all of
    them.
    """

    def select(_module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden = args[0]
        seen["hidden"] = hidden
        return (hidden.reshape(-1, hidden.shape[-1]).index_select(0, index), *args[1:])

    handle = layer.register_forward_pre_hook(select)
    try:
        yield
    finally:
        handle.remove()


def logits_at(
    call: nn.Module,
    layer: nn.Module,
    input_ids: Tensor,
    index: Tensor,
    position_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    embeddings: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Logits [N, V] at the flat positions `index` [N] of `input_ids` [B, L], and the last hidden states [B,
    L, H].

    `call` is the model, or what wraps it (a DeepSpeed engine); `layer` is its output layer. The logits at
    position i predict token i + 1. `attention_mask` is only for what causality and right padding don't give:
    blocks of a packed row, as an additive or boolean mask [1, 1, L, L]. `embeddings` [B, L, H] are read in
    the ids' place where they hold more than those (pictures).
    """
    seen: dict[str, Tensor] = {}
    kwargs: dict[str, Any] = {}
    if position_ids is not None:
        kwargs["position_ids"] = position_ids
    if attention_mask is not None:
        kwargs["attention_mask"] = attention_mask
    if embeddings is None:
        kwargs["input_ids"] = input_ids
    else:
        kwargs["inputs_embeds"] = embeddings
    with _only_at(layer, index, seen):
        out = call(use_cache=False, **kwargs)
    return out.logits, seen["hidden"]


def process(logits: Tensor, how: Processing) -> Tensor:
    """Logits [N, V] -> logits of the distribution sampled from; excluded tokens are -inf. Always float32."""
    logits = logits.float()
    if how.temperature != 1.0:
        logits = logits / how.temperature
    if not how.cuts:
        return logits
    size = logits.shape[-1]
    if 0 < how.top_k < size:
        kth = logits.topk(how.top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < kth, float("-inf"))
    if how.top_p < 1.0:
        # Ascending, as engines do it: drop the least likely tokens whose mass together is at most 1 - top_p.
        values, order = logits.detach().sort(dim=-1)
        drop = values.softmax(dim=-1).cumsum(dim=-1) <= 1.0 - how.top_p
        drop[:, -1] = False
        logits = logits.masked_fill(drop.scatter(-1, order, drop), float("-inf"))
    return logits


def token_logprobs(logits: Tensor, targets: Tensor, how: Processing) -> Tensor:
    """Log-probs [N] of `targets` [N] under the processed `logits` [N, V].

    A target that the cuts exclude (the weights have moved since it was sampled) has no probability under the
    cut distribution; it gets that of the renormalised distribution with itself added, which is finite and
    keeps its gradient, so that an importance ratio is small instead of a NaN.
    """
    cut = process(logits, how)
    if not how.cuts:
        return torch.log_softmax(cut, dim=-1).gather(-1, targets[:, None])[:, 0]
    own = (logits.float() / how.temperature).gather(-1, targets[:, None])
    return torch.log_softmax(cut.scatter(-1, targets[:, None], own), dim=-1).gather(-1, targets[:, None])[
        :, 0
    ]


def entropy_of(logits: Tensor, how: Processing) -> Tensor:
    """Entropy [N] in nats of the processed distribution; differentiable, excluded tokens count as 0."""
    cut = process(logits, how)
    logp = torch.log_softmax(cut, dim=-1)
    if not how.cuts:
        return -(logp.exp() * logp).sum(dim=-1)
    finite = torch.where(torch.isfinite(logp), logp, torch.zeros_like(logp))
    return -(logp.exp() * finite).sum(dim=-1)


def logprobs_and_entropy(
    logits: Tensor, targets: Tensor, how: Processing, *, entropy_grad: bool = True
) -> tuple[Tensor, Tensor]:
    """`token_logprobs` and `entropy_of` with one softmax where nothing is cut. Both [N].

    `entropy_grad` False: the entropy is only reported, and has no gradient.
    """
    if how.cuts:
        with torch.set_grad_enabled(entropy_grad and torch.is_grad_enabled()):
            entropy = entropy_of(logits, how)
        return token_logprobs(logits, targets, how), entropy
    logp = torch.log_softmax(process(logits, how), dim=-1)
    spread = logp if entropy_grad else logp.detach()
    return logp.gather(-1, targets[:, None])[:, 0], -(spread.exp() * spread).sum(dim=-1)

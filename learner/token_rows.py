"""The rows of a few tokens, trained where LoRA leaves embedding and head as they are.

Mem-π's two decision tokens begin nearly alike. With their rows frozen an adapter would have to turn the whole
hidden state to tell them apart, and hardly learns to decide. So each gets a difference that is added to its
row, in the embedding and in the head (one for both, where they are tied):

    embedding(token) + Δ_in[token]          logit(token) + h · Δ_out[token]

The matrices themselves are never copied. A push and a final model hold the sums (learner/export.py), so
engines know nothing of it. `absent` gives the model of the start, as `disable_adapter` does for the adapter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from agentmem.failures import ConfigError
from learner.forward import output_layer

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class TokenRows(nn.Module):
    """Differences of the rows of `ids`, on a model whose modules call it by hooks."""

    def __init__(self, model: PreTrainedModel, ids: Sequence[int]) -> None:
        super().__init__()
        embedding: Any = model.get_input_embeddings()
        head: Any = output_layer(model)
        if hasattr(embedding, "base_layer") or hasattr(head, "base_layer"):
            raise ConfigError(
                "lora.targets has the embedding or the head: a memory policy trains its own rows of them, "
                "so leave them out ('all-linear' does)"
            )
        self.ids = tuple(ids)
        self.embedding = nn.Parameter(torch.zeros_like(embedding.weight[: len(self.ids)]))
        self.head: nn.Parameter | None = None
        if head.weight is not embedding.weight:
            self.head = nn.Parameter(torch.zeros_like(head.weight[: len(self.ids)]))
        # Not registered here: they are the model's.
        self._weights = (embedding.weight, head.weight)
        self._present = True
        embedding.register_forward_hook(self._embedded)
        head.register_forward_hook(self._read)

    @contextmanager
    def absent(self) -> Iterator[None]:
        """While inside, the model is as it was."""
        self._present = False
        try:
            yield
        finally:
            self._present = True

    def of(self, weight: nn.Parameter) -> nn.Parameter | None:
        """The differences that belong to a parameter of the model; None if none do."""
        embedding, head = self._weights
        if weight is embedding:
            return self.embedding
        return self.head if weight is head else None

    def merged(self, weight: nn.Parameter) -> Tensor:
        """A copy of such a parameter with its differences added."""
        delta = self.of(weight)
        if delta is None:
            raise ValueError("neither the embedding nor the head")
        return weight.index_add(0, self._index(weight), delta.to(weight.dtype))

    def _index(self, like: Tensor) -> Tensor:
        return torch.tensor(self.ids, device=like.device)

    def _embedded(self, _module: nn.Module, args: tuple[Any, ...], out: Tensor) -> Tensor | None:
        if not self._present:
            return None
        which = (args[0][..., None] == self._index(out)).to(out.dtype)
        added: Tensor = which @ self.embedding.to(out.dtype)
        return out + added

    def _read(self, _module: nn.Module, args: tuple[Any, ...], out: Tensor) -> Tensor | None:
        if not self._present:
            return None
        delta = self.embedding if self.head is None else self.head
        hidden: Tensor = args[0]
        return out.index_add(-1, self._index(out), (hidden @ delta.to(hidden.dtype).T).to(out.dtype))

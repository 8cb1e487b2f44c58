"""Give a language model the decision tokens of a memory policy: `chat/decision.py`.

The tokenizer gets two special tokens. The model gets their rows in the input embedding and in the head: spare
rows where it has some (many models round their vocabulary up), else new ones. Each begins as the mean of the
rows of the tokens that were there, with a little noise of its own: neither decision is likely, neither is
much favoured, and the two aren't the same. The noise depends on `seed` alone. A language model hardly ever
samples them (its likely tokens are far above the mean), so a decision is forced, or drawn between these two.

What a tokenizer has already is kept, rows included: doing it again changes nothing.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmem.chat.decision import TOKENS, DecisionTokens
from agentmem.failures import ModelError
from agentmem.vision.directory import causal_model

if TYPE_CHECKING:
    from torch import Tensor

NOISE = 0.01
"""Standard deviation of the noise, as a share of that of the rows around their mean."""

WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*")
"""Files that hold weights: written anew, so that no shard of the old ones stays behind."""


def add_decision_tokens(model: Any, tokenizer: Any, *, seed: int = 0) -> DecisionTokens:
    """Change a Hugging Face model and its tokenizer in place; the tokens' ids."""
    import torch
    from tokenizers import AddedToken

    before = len(tokenizer)
    known = tokenizer.get_added_vocab()
    new = [token for token in TOKENS if token not in known]
    if new:
        tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in new])
    ids = [int(tokenizer.convert_tokens_to_ids(token)) for token in TOKENS]
    if new:
        if max(ids) >= model.get_input_embeddings().weight.shape[0]:
            model.resize_token_embeddings(max(ids) + 1, mean_resizing=False)
        fresh = [i for token, i in zip(TOKENS, ids, strict=True) if token in new]
        generator = torch.Generator().manual_seed(seed)
        matrices = [model.get_input_embeddings().weight]
        head = model.get_output_embeddings()
        if head is None:
            raise ModelError(f"{type(model).__name__} has no output layer: a causal language model is needed")
        if head.weight is not matrices[0]:  # a tied head is the embedding
            matrices.append(head.weight)
        if getattr(head, "bias", None) is not None:
            matrices.append(head.bias)
        with torch.no_grad():
            for matrix in matrices:
                _begin(matrix, before, fresh, generator)
    return DecisionTokens(*ids)


def _begin(matrix: Tensor, before: int, fresh: list[int], generator: Any) -> None:
    """Set the rows `fresh` of an embedding, a head or a bias from its first `before` rows."""
    import torch

    rows = matrix[: min(before, matrix.shape[0])].float()
    mean, spread = rows.mean(dim=0), rows.std(dim=0)
    for i in fresh:
        noise = torch.randn(mean.shape, generator=generator).to(matrix.device)
        matrix[i] = (mean + NOISE * spread * noise).to(matrix.dtype)


def write_memory_model(source: str | Path, into: str | Path, *, seed: int = 0) -> DecisionTokens:
    """A model's directory with the decision tokens added, written to the directory `into`.

    Raises ModelError with one line if `source` can't be loaded.
    """
    from transformers import AutoTokenizer

    source, into = Path(source), Path(into)
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(source), local_files_only=True)
        model = causal_model(source).from_pretrained(str(source), dtype="auto", local_files_only=True)
    except (OSError, ValueError) as error:
        raise ModelError(f"model {source} can't be loaded: {' '.join(str(error).split())}") from error
    add_decision_tokens(model, tokenizer, seed=seed)
    into.mkdir(parents=True, exist_ok=True)
    # What the libraries don't write (a list of words, a separate template) comes along.
    skipped = shutil.ignore_patterns(*WEIGHTS)
    shutil.copytree(source, into, ignore=skipped, dirs_exist_ok=True)
    model.save_pretrained(str(into))
    tokenizer.save_pretrained(str(into))
    return DecisionTokens.of(into)

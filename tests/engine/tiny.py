"""A tiny Llama made on the fly, and what a learner would do with it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from agentmem.sampling import Sampling
from agentmem.weights.base import Probe

VOCAB = 1186
PROBE = ((3, 14, 15, 92, 65), (35, 89, 79), (1, 2, 3, 4, 5, 6, 7, 8, 9))


def make_model(folder: Path, *, tied: bool, vocab: int = VOCAB) -> Any:
    """Save a random model of 312,000 parameters (fewer if tied) and return it."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        # Large enough that the distributions are far from uniform, so that mistakes show.
        initializer_range=0.1,
    )
    model = LlamaForCausalLM(config).float().eval()
    model.save_pretrained(folder)
    return model


def train(model: Any, seed: int) -> None:
    """Move all weights by a little, as an update would."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.03)


def state(model: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def score(model: Any, sequences: Sequence[Sequence[int]]) -> list[tuple[float, ...]]:
    """The learner's log-probabilities of each token but the first."""
    rows = []
    with torch.no_grad():
        for ids in sequences:
            logprobs = model(torch.tensor([list(ids)])).logits[0].log_softmax(-1)
            rows.append(tuple(logprobs[range(len(ids) - 1), list(ids[1:])].tolist()))
    return rows


def probe(model: Any) -> Probe:
    return Probe(sequences=PROBE, logprobs=tuple(score(model, PROBE)))


def processed(model: Any, prompt: Sequence[int], response: Sequence[int], sampling: Sampling) -> list[float]:
    """Log-probabilities of a response under temperature, top-k and top-p, written independently of any
    engine.
    """
    rows = []
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *response]])).logits[0]
    for at, token in enumerate(response):
        scaled = logits[len(prompt) - 1 + at] / sampling.temperature
        order = scaled.argsort(descending=True)
        if sampling.top_k:
            order = order[: sampling.top_k]
        probabilities = scaled[order].softmax(-1)
        if sampling.top_p < 1:
            keep = int((probabilities.cumsum(-1) < sampling.top_p).sum()) + 1
            order, probabilities = order[:keep], probabilities[:keep] / probabilities[:keep].sum()
        place = (order == token).nonzero()
        assert len(place) == 1, f"token {token} was cut by top-k or top-p"
        rows.append(float(probabilities[place[0, 0]].log()))
    return rows

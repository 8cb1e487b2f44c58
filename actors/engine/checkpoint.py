"""What a model directory holds, read from its headers alone: enough to refuse a bad path or update early."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from actors.engine.protocol import EngineConfig
from agentmem.failures import ModelError
from agentmem.vision.directory import language_config
from agentmem.weights.base import WeightUpdate

_TIED_HEAD = "lm_head.weight"
Shapes = Mapping[str, tuple[int, ...]]


def read_checkpoint(config: EngineConfig) -> tuple[Shapes, int]:
    """Tensor shapes by name, and the vocabulary size. Raises `ModelError` with one line."""
    from safetensors import SafetensorError, safe_open

    folder = Path(config.model)
    settings = folder / "config.json"
    if not settings.is_file():
        raise ModelError(f"no model at {config.model}: config.json is missing")
    model = json.loads(settings.read_text())
    language = language_config(model)
    vocab = language.get("vocab_size")
    if not isinstance(vocab, int) or vocab < 1:
        raise ModelError(f"{settings}: vocab_size is {vocab!r}")
    positions = language.get("max_position_embeddings")
    if isinstance(positions, int) and config.max_model_len > positions:
        raise ModelError(f"max_model_len {config.max_model_len} > {positions} positions of {config.model}")
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelError(f"no weights at {config.model}: there is no *.safetensors file")
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        try:
            with safe_open(file, framework="np") as opened:
                for name in opened.keys():  # noqa: SIM118 (not a mapping)
                    shapes[name] = tuple(opened.get_slice(name).get_shape())
        except SafetensorError as error:
            raise ModelError(f"{file} can't be read: {error}") from error
    embedding = next((shape for name, shape in shapes.items() if name.endswith("embed_tokens.weight")), None)
    if embedding is not None and embedding[0] < vocab:
        raise ModelError(f"{config.model}: vocab_size is {vocab}, but there are {embedding[0]} embeddings")
    return shapes, vocab


def disagreement(shapes: Shapes, update: WeightUpdate) -> str | None:
    """Why the announced tensors aren't those of this model; None if they are."""
    if update.adapter is not None:
        return None
    announced = {meta.name: meta.shape for meta in update.tensors}
    missing = [name for name in shapes if name not in announced and name != _TIED_HEAD]
    if missing:
        return (
            f"the update lacks {len(missing)} of the model's {len(shapes)} tensors, the first is {missing[0]}"
        )
    for name, shape in announced.items():
        expected = shapes.get(name)
        if expected is None:
            # A tied head may be sent; it is the embedding once more.
            if name == _TIED_HEAD:
                continue
            return f"the update holds {name}, which the model does not"
        if shape != expected:
            return f"{name} has shape {shape}, the model's is {expected}"
    return None

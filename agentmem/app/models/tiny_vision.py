"""The tiny model that sees: a Qwen2.5-VL of about 200,000 parameters for a memory policy, warmed up by
imitation.

Architecture, processor, placeholder tokens and positions are those of the large models; words, hints and the
imitation of random ones are the tiny memory policy's (`tiny.py`). It is for environments with a compact
format whose first observation has a picture (`env.options.screenshot`), and is served by the PyTorch engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmem.failures import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from agentmem.app.models.resolve import Progress, Surroundings
    from agentmem.config import PolicyConfig

NAME = "tiny-vision"
VERSION = 1
"""Of everything that shapes the weights. Raise it with any change."""

IMAGE_TOKENS = ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "<|video_pad|>")
PATCH, MERGE = 4, 2
PIXELS = {"shortest_edge": 16 * 16, "longest_edge": 32 * 32}
"""Least and most pixels of a picture: at most 16 tokens."""
SHAPE: Mapping[str, int] = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 192,
}
TOWER: Mapping[str, Any] = {
    "depth": 2,
    "hidden_size": 32,
    "num_heads": 2,
    "intermediate_size": 64,
    "window_size": PATCH * MERGE * 2,
    "fullatt_block_indexes": [1],
}


def recipe(policy: PolicyConfig, around: Surroundings) -> dict[str, Any]:
    """All that the made model depends on."""
    from agentmem.app.models import tiny
    from envs import registry

    return {
        "version": VERSION,
        "env": around.env,
        "options": asdict(registry.validate_options(around.env, around.options)),
        "positions": tiny.positions(policy),
        "warmup": policy.warmup.model_dump(mode="json"),
    }


def make(policy: PolicyConfig, around: Surroundings, into: Path, report: Progress) -> None:
    """Write tokenizer, processor and warmed-up model into an empty directory. Raises ModelError where there
    is nothing to see, or no policy that is asked for hints."""
    from agentmem.app.models import tiny
    from agentmem.app.models.resolve import write
    from agentmem.chat import ChatCodec
    from agentmem.vision.picture import Picture
    from agentmem.vision.prompting import picture_prompt
    from agentmem.vision.reader import PictureReader
    from envs import registry
    from learner.sft import SftConfig, train

    start = registry.warm_start(around.env, around.options)
    if not around.advises or start is None or start.hints is None or start.sights is None:
        raise ModelError(
            f"model '{NAME}': it is made for a memory policy where hints are words and first observations "
            "have pictures (env.name=doors, env.options.format=compact, env.options.screenshot=true), not "
            f"for '{around.env}' with these options"
        )
    warmup, positions = policy.warmup, tiny.positions(policy)
    count = warmup.steps * warmup.batch_rows
    tokenizer, pairs = tiny.advising(start, warmup.seed, count)
    model = save_untrained(tokenizer, into, positions=positions, seed=warmup.seed)
    codec, reader = ChatCodec(into), PictureReader(into)
    pictures, rows = [], []
    for (prompt, answer), png in zip(pairs, start.sights(warmup.seed), strict=False):
        picture = Picture.of_png(png)
        ids, _ = picture_prompt(codec, prompt, picture, reader, positions)
        rows.append((ids, codec.plain(answer)))
        pictures.append(picture)
    if rows:
        train(
            model,
            rows,
            SftConfig(steps=warmup.steps, batch_rows=warmup.batch_rows, lr=warmup.lr, seed=warmup.seed),
            lambda p: report("warming up the tiny model that sees", p.step, p.steps),
            pictures=pictures,
            reader=reader,
        )
    write(model, tokenizer, into)


def save_untrained(
    tokenizer: PreTrainedTokenizerFast, into: Path, *, positions: int = 512, seed: int = 0, std: float = 0.02
) -> PreTrainedModel:
    """A model of fresh weights, drawn from `seed` alone, and its directory: the tokenizer gets the tokens of
    pictures."""
    from tokenizers import AddedToken
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    from agentmem.app.models.resolve import write

    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in IMAGE_TOKENS])
    model = new_qwen(tokenizer, positions, seed, std)
    write(model, tokenizer, into)
    processor = Qwen2VLImageProcessorPil(
        patch_size=PATCH, merge_size=MERGE, temporal_patch_size=2, size=dict(PIXELS)
    )
    processor.save_pretrained(str(into))
    return model


def new_qwen(tokenizer: PreTrainedTokenizerFast, positions: int, seed: int, std: float) -> PreTrainedModel:
    """Fresh weights."""
    import torch
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    start, pad, end, video = (int(i) for i in tokenizer.convert_tokens_to_ids(list(IMAGE_TOKENS)))
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "max_position_embeddings": positions,
            # Of half a head's 32 dimensions: time, height, width.
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 6, 6]},
            "initializer_range": std,
            **{f"{name}_token_id": i for i, name in enumerate(("pad", "bos", "eos"))},
            **SHAPE,
        },
        vision_config={
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": 2,
            "out_hidden_size": SHAPE["hidden_size"],
            "initializer_range": std,
            **TOWER,
        },
        image_token_id=pad,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
        tie_word_embeddings=False,
        initializer_range=std,
        agentmem_tiny=True,
        dtype="float32",
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Qwen2_5_VLForConditionalGeneration(config)

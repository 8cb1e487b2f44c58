"""A small memory policy that sees, pictures for it, and advice turns that were asked with one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from PIL import Image

from agentmem.chat.decision import Decision, DecisionTokens
from agentmem.trajectory import Trial, Turn
from agentmem.vision.picture import Picture, picture_of
from agentmem.vision.reader import PictureReader
from tests.learner_group.advised import WORDS, advice, advised

FIRST_WORD = 4


def save_seeing_model(
    folder: Path, *, seed: int = 0, words: Sequence[str] = WORDS, decides: bool = True
) -> str:
    """A random Qwen2.5-VL of about 200,000 parameters on disk, its distributions far from uniform."""
    from tokenizers import AddedToken

    from agentmem.app.models.tiny import word_tokenizer
    from agentmem.app.models.tiny_vision import save_untrained

    tokenizer = word_tokenizer(words)
    if decides:
        tokenizer.add_tokens([AddedToken(d.token, special=True, normalized=False) for d in Decision])
    folder.mkdir(parents=True, exist_ok=True)
    save_untrained(tokenizer, folder, positions=256, seed=seed, std=0.15)
    return str(folder)


@lru_cache
def pixels(seed: int, width: int = 32, height: int = 32) -> Image.Image:
    """Noise: no two seeds look alike."""
    drawn = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(drawn)


def picture(seed: int = 0, width: int = 32, height: int = 32) -> Picture:
    return picture_of(pixels(seed, width, height))


def prompt_of(model: str, image: Picture | None, words: Sequence[int] = (5, 6, 7, 8)) -> tuple[int, ...]:
    """<bos>, the picture's tokens, and some words."""
    placed = () if image is None else PictureReader(model).placed(image)
    return (1, *placed, *words)


def asked(model: str, turn: Turn, image: Picture | None, words: Sequence[int] = (5, 6, 7, 8)) -> Turn:
    """The turn as if it had been asked with this picture."""
    tokens = DecisionTokens.of(model)
    ids = list(turn.response_ids or ())
    ids[0] = tokens.generate if len(ids) > 1 else tokens.abstain
    return replace(turn, prompt_ids=prompt_of(model, image, words), response_ids=tuple(ids), image=image)


def seen_group(
    model: str, abstain: Sequence[bool], generate: Sequence[bool], image: Picture | None, *, group: int = 0
) -> list[Trial]:
    """As `advised.structured`, each member asked with the same picture."""
    trials = []
    for win in abstain:
        turn = asked(model, advice("abstain"), image)
        trials.append(advised("abstain", win, turn, member=len(trials), group=group))
    for j, win in enumerate(generate):
        words = random.Random(j).choices(range(FIRST_WORD, FIRST_WORD + 40), k=2 + j % 3)
        turn = asked(model, advice("generate", words), image)
        trials.append(advised("generate", win, turn, member=len(trials), group=group))
    return trials


def own_logprobs(model: Any, reader: PictureReader, ids: Sequence[int], image: Picture | None) -> list[float]:
    """Log-probs of all ids but the first by the library's own way from pixels to logits."""
    import torch

    row = torch.tensor([list(ids)])
    given: dict[str, Any] = {}
    if image is not None:
        seen = reader.read(image)
        given = {
            "pixel_values": torch.tensor(seen.patches),
            "image_grid_thw": torch.tensor([seen.grid]),
            "mm_token_type_ids": (row == reader.pad).int(),
        }
    with torch.no_grad():
        logprobs = (
            model(input_ids=row, attention_mask=torch.ones_like(row), **given).logits[0].log_softmax(-1)
        )
    return [float(logprobs[at, token]) for at, token in enumerate(ids[1:])]

"""Mem-π's Stage 1 as data: records of an experience bank -> rows -> the batches of each step.

A record is a prompt (the task and its first observation, as the memory policy will read them) and a hint. Its
row is trained on the hint and its end alone:

    prompt [GENERATE]  ->  hint <eos>

Of a prompt that is too long, head and tail are kept. A hint that is too long is cut, and then has no end: a
policy that saw one there would learn to stop in mid-sentence.

Batches depend on the number of records, the seed and the step alone, so a resumed training goes on with the
very batch that would have been next. An epoch takes each record once; its last batch may be smaller.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentmem.chat import ChatCodec, DecisionTokens, PromptLike, keep_ends
from agentmem.config.advice import AdviceConfig, Stage1Config
from agentmem.failures import ConfigError
from agentmem.sampling import Sampling
from agentmem.trajectory import TurnKind
from agentmem.vision.picture import Picture, PictureError
from agentmem.vision.prompting import picture_prompt
from agentmem.vision.reader import PictureReader
from learner.row import Part, Row
from learner.settings import RankSettings

Record = tuple[PromptLike | Sequence[int], str]
"""Prompt (text, messages, or ids as they are) and hint."""


@dataclass(frozen=True, slots=True)
class Examples:
    """Encoded records, in their order. Counts are of records."""

    rows: list[Row]
    prompts_cut: int = 0
    hints_cut: int = 0


def encode(
    records: Sequence[Record],
    codec: ChatCodec,
    tokens: DecisionTokens,
    cfg: Stage1Config,
    *,
    pictures: Sequence[Picture | None] = (),
    reader: PictureReader | None = None,
) -> Examples:
    """Rows of records. Raises ConfigError for one that can't be learnt, by its number (from 0). `pictures`:
    those of the records, for a model that sees and its `reader`."""
    rows: list[Row] = []
    prompts_cut = hints_cut = 0
    seen = pictures or [None] * len(records)
    for number, ((prompt, hint), picture) in enumerate(zip(records, seen, strict=True)):
        try:
            asked, cut = _asked(prompt, codec, picture, reader, cfg.max_prompt)
        except PictureError as error:
            raise ConfigError(f"record {number}: {error}") from None
        answer = codec.plain(hint)
        if not asked or not answer:
            raise ConfigError(
                f"record {number}: its prompt has {len(asked)} tokens and its hint {len(answer)}: "
                "both need at least 1"
            )
        if tokens.generate in answer or tokens.abstain in answer:
            raise ConfigError(f"record {number}: its hint holds a decision token: {hint[:80]!r}")
        prompts_cut += cut
        if len(answer) > cfg.max_target:
            hints_cut += 1
            answer = answer[: cfg.max_target]
        else:
            answer = (*answer, codec.end_token_id)
        rows.append(example((*asked, tokens.generate), answer, picture))
    return Examples(rows, prompts_cut, hints_cut)


def example(prompt: tuple[int, ...], answer: tuple[int, ...], image: Picture | None = None) -> Row:
    """A row that is learnt by heart. Nothing sampled it, so it has no engine log-probs."""
    return Row(
        prompt=prompt,
        response=answer,
        engine=(math.nan,) * len(answer),
        versions=(0,) * len(answer),
        sampling=Sampling(),
        advantage=0.0,
        trial=0,
        kind=TurnKind.ADVISE,
        part=Part.EXAMPLE,
        image=image,
    )


def _asked(
    prompt: PromptLike | Sequence[int],
    codec: ChatCodec,
    picture: Picture | None,
    reader: PictureReader | None,
    limit: int,
) -> tuple[tuple[int, ...], bool]:
    """A prompt's ids, at most `limit`, and whether some were left out."""
    if picture is not None and reader is None:
        raise PictureError("it has a picture, but the memory policy's model reads text alone")
    ids = tuple(i for i in prompt if isinstance(i, int))
    if len(ids) != len(prompt):
        text: Any = prompt
        if reader is not None:
            told = (
                text
                if isinstance(text, str)
                else [m if isinstance(m, tuple) else (m.role, m.content) for m in text]
            )
            return picture_prompt(codec, told, picture, reader, limit)
        ids = codec.encode(text)
    elif picture is not None:
        raise PictureError("a prompt of token ids has no place for its picture: give it as text or messages")
    return keep_ends(ids, limit), len(ids) > limit


def steps_of(records: int, cfg: Stage1Config) -> int:
    """Optimiser steps of the whole of Stage 1."""
    return cfg.epochs * math.ceil(records / cfg.batch)


def batch_of(step: int, *, records: int, batch: int, seed: int) -> list[int]:
    """The records (indices) of step `step` (0, 1, …): epoch after epoch, for as long as one asks."""
    steps = math.ceil(records / batch)
    epoch, place = divmod(step, steps)
    order = list(range(records))
    random.Random(f"stage1:{seed}:{epoch}").shuffle(order)
    return order[place * batch : (place + 1) * batch]


def settings_of(settings: RankSettings, records: int) -> RankSettings:
    """A memory policy's settings for its Stage 1 on so many records: its schedule, and the one loss.

    What isn't Stage 1's own (ranks, ZeRO, token budget, clipping) stays.
    """
    advice = settings.advice or AdviceConfig()
    cfg = advice.stage1
    steps = steps_of(records, cfg)
    learner = settings.learner.model_copy(
        update={
            "lr": cfg.lr,
            "updates": steps + 1,  # the cosine reaches 0 behind the last step, which would else be lost
            "warmup_updates": math.ceil(cfg.warmup * steps),
            "schedule": "cosine",
            "min_lr_ratio": 0.0,
            "minibatches": 1,
            "epochs": 1,
        }
    )
    return dataclasses.replace(
        settings,
        learner=learner,
        advice=advice.model_copy(update={"kl_coef": 0.0, "distil_coef": 1.0}),
        objective=settings.objective.model_copy(update={"entropy_coef": 0.0}),
    )


def fingerprint(rows: Sequence[Row], cfg: Stage1Config, seed: int) -> str:
    """A hash of all that shapes the training's steps: a checkpoint goes on with the same only."""
    digest = hashlib.sha256(json.dumps([cfg.model_dump(mode="json"), seed]).encode())
    for row in rows:
        seen = [] if row.image is None else [row.image.sha256]
        digest.update(json.dumps([row.prompt, row.response, *seen]).encode())
    return digest.hexdigest()

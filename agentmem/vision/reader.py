"""One vision-language model's eyes: pictures to patches, by its own processor, and to placeholder tokens.

A picture stands in the prompt as `start pad … pad end`, one `pad` for each token that the vision tower makes
of it. How many follows from the picture's size alone, so a prompt is written without decoding anything.

Patches are cached by the picture's hash, up to `CACHE_BYTES`: a picture is decoded once for all the steps of
an engine and all the rows of an update. The processor is transformers' own on Pillow: torchvision isn't
needed.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentmem.failures import ModelError
from agentmem.vision.directory import SEEING, sees
from agentmem.vision.picture import Picture, PictureError, picture_of

CACHE_BYTES = 256 << 20

Grid = tuple[int, int, int]
"""Patches of a picture: in time (1), in height, in width."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A picture as the vision tower takes it."""

    patches: NDArray[np.float32]
    """[patches, values of each]."""
    grid: Grid


class PictureReader:
    """Of one model's directory. Safe to use from several threads."""

    def __init__(self, path: str | Path) -> None:
        """Raises ModelError for a directory that doesn't see, or that lacks a part of it."""
        self.path = Path(path)
        if not sees(path):
            raise ModelError(f"model {path} takes no pictures (those of type {', '.join(SEEING)} do)")
        try:
            config = json.loads((self.path / "config.json").read_text(encoding="utf-8"))
            tokenizer = json.loads((self.path / "tokenizer.json").read_text(encoding="utf-8"))
            self.pad, self.start, self.end = (
                int(config[f"{name}_token_id"]) for name in ("image", "vision_start", "vision_end")
            )
            self._video = int(config["video_token_id"])
            self.merge = int(config["vision_config"].get("spatial_merge_size", 2))
            texts = {int(t["id"]): str(t["content"]) for t in tokenizer.get("added_tokens") or ()}
            self._texts = [texts[i] for i in (self.start, self.pad, self.end)]
            self._special = [texts[i] for i in (self.start, self.pad, self.end, self._video) if i in texts]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(f"model {path}: how it takes pictures can't be read ({error!r})") from None
        self._cache: OrderedDict[str, Seen] = OrderedDict()
        self._cached, self._lock = 0, Lock()

    @classmethod
    def of(cls, path: str | Path) -> PictureReader | None:
        """Of a directory; None if its model reads text alone."""
        return cls(path) if sees(path) else None

    def check(self) -> PictureReader:
        """Load the processor now. Raises ModelError if it can't serve."""
        self.read(self.probe)
        return self

    @property
    def marker(self) -> str:
        """A picture's place in a text: its tokens with a single `pad`."""
        return "".join(self._texts)

    def harmless(self, text: str) -> str:
        """A text in which nothing reads as a picture's token: what a page says is no picture."""
        for token in self._special:
            if token in text:
                text = text.replace(token, f"{token[:1]} {token[1:]}")
        return text

    def grid(self, picture: Picture) -> Grid:
        """Its patches, from its size alone."""
        width, height = picture.size
        processor = self._processor
        size, patch = processor.size, int(processor.patch_size)
        tall, wide = self._resize(
            height,
            width,
            factor=patch * self.merge,
            min_pixels=size["shortest_edge"],
            max_pixels=size["longest_edge"],
        )
        return 1, tall // patch, wide // patch

    def tokens(self, grid: Grid) -> int:
        """Tokens that the vision tower makes of a picture."""
        return grid[0] * grid[1] * grid[2] // self.merge**2

    def placed(self, picture: Picture) -> tuple[int, ...]:
        """Its tokens in a prompt."""
        return (self.start, *[self.pad] * self.tokens(self.grid(picture)), self.end)

    def read(self, picture: Picture) -> Seen:
        """Its patches. Raises PictureError for a damaged one."""
        with self._lock:
            found = self._cache.get(picture.sha256)
            if found is not None:
                self._cache.move_to_end(picture.sha256)
                return found
        made = self._read(picture)
        with self._lock:
            if picture.sha256 not in self._cache:
                self._cache[picture.sha256] = made
                self._cached += made.patches.nbytes
            while self._cached > CACHE_BYTES and len(self._cache) > 1:
                self._cached -= self._cache.popitem(last=False)[1].patches.nbytes
        return made

    def refusal(self, ids: Sequence[int], picture: Picture | None) -> str | None:
        """Why a prompt and its picture don't belong together; None if they do."""
        places = ids.count(self.pad)
        if picture is None:
            return f"the prompt has {places} places for a picture, and there is none" if places else None
        try:
            wanted = self.tokens(self.read(picture).grid)
        except PictureError as error:
            return str(error)
        if places != wanted:
            return f"the prompt has {places} places for a picture that takes {wanted}"
        at = ids.index(self.pad)
        if tuple(ids[at : at + wanted]) != (self.pad,) * wanted:
            return "the places for the picture don't stand together in the prompt"
        return None

    @cached_property
    def probe(self) -> Picture:
        """A small picture, always the same, with which engines and learner compare weights."""
        from PIL import Image

        side = 2 * self.merge * int(self._processor.patch_size)
        y, x, colour = np.indices((side, side, 3))
        return picture_of(Image.fromarray(((x * 7 + y * 13 + colour * 41) % 256).astype(np.uint8)))

    def _read(self, picture: Picture) -> Seen:
        made = self._processor(picture.decoded())
        patches = np.asarray(made["pixel_values"], dtype=np.float32)
        _, tall, wide = (int(n) for n in np.asarray(made["image_grid_thw"])[0])
        return Seen(patches, (1, tall, wide))

    @cached_property
    def _processor(self) -> Any:
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

        try:
            made = Qwen2VLImageProcessorPil.from_pretrained(str(self.path), local_files_only=True)
        except (OSError, ValueError) as error:
            cause = " ".join(str(error).split())[:200]
            raise ModelError(f"model {self.path}: its image processor can't be loaded: {cause}") from None
        if int(made.merge_size) != self.merge:
            raise ModelError(
                f"model {self.path}: its image processor merges {made.merge_size} x {made.merge_size} "
                f"patches, the model {self.merge} x {self.merge}: they don't belong together"
            )
        return made

    @cached_property
    def _resize(self) -> Any:
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

        return smart_resize

"""A static embedder without weights: signed hashing of words and word pairs (Weinberger et al. 2009).

    row[h(f) mod d] += s(f) · √count(f)        over the features f of the text; then scaled to length 1

Features are words (runs of letters and digits, case folded), other visible characters one by one, and pairs
of neighbours among these. h and s come from BLAKE2b, so a row is the same in every process. It tells texts
apart and sees shared words; it knows nothing of meaning. For tiny models, and where `minilm` is missing.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

_TOKEN = re.compile(r"\w+|[^\w\s]")


@lru_cache(maxsize=65536)
def _hashed(feature: str) -> tuple[int, float]:
    digest = hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    number = int.from_bytes(digest, "little")
    return number >> 1, 1.0 if number & 1 else -1.0


class HashedWords:
    """The embedder `words`."""

    name = "words"

    def __init__(self, dimension: int = 256) -> None:
        if dimension < 1:
            raise ValueError(f"dimension is {dimension}: must be >= 1")
        self.dimension = dimension

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """As `Embedder.embed`."""
        rows = np.zeros((len(texts), self.dimension))
        for row, text in zip(rows, texts, strict=True):
            tokens = _TOKEN.findall(text.casefold())
            # No token holds a space, so a pair is never taken for a word.
            pairs = [f"{a} {b}" for a, b in pairwise(tokens)]
            for feature, count in Counter(tokens + pairs).items():
                place, sign = _hashed(feature)
                row[place % self.dimension] += sign * count**0.5
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        unit: npt.NDArray[np.float32] = (rows / np.where(norms > 0, norms, 1.0)).astype(np.float32)
        return unit

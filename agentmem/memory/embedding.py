"""Texts -> unit vectors: the keys of tips, and the states of EMPO²'s novelty.

Every embedder returns float32 `[n, dimension]`: a unit row per text, a zero row for a text without content
(nothing but white space), so that it is similar to nothing. The row of a text depends on the text and the
embedder's name alone, not on the process and (up to rounding, 1e-5) not on the texts beside it.

| name | dimension | what |
|---|---|---|
| `minilm` | 384 | all-MiniLM-L6-v2, the papers' sentence encoder (`minilm`) |
| `words` | 256 | hashed words and word pairs: knows no meaning, needs nothing (`words`) |
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from agentmem.failures import ConfigError

EmbedderName = Literal["minilm", "words"]
FloatRows = npt.NDArray[np.float32]


class Embedder(Protocol):
    """What turns texts into vectors."""

    @property
    def name(self) -> str:
        """Vectors of embedders with different names can't be compared."""
        ...

    @property
    def dimension(self) -> int:
        """Numbers in a row."""
        ...

    def embed(self, texts: Sequence[str]) -> FloatRows:
        """`[n, dimension]`: unit rows, a zero row for a text without content. Safe to call from threads."""
        ...


def load_embedder(name: EmbedderName) -> Embedder:
    """The embedder of this name, ready to use. Raises ConfigError if it is unknown or something is missing.

    `minilm` takes seconds to load (torch and 90 MB of weights): load it once a process.
    """
    if name == "minilm":
        from agentmem.memory.minilm import MiniLM

        return MiniLM()
    if name == "words":
        from agentmem.memory.words import HashedWords

        return HashedWords()
    raise ConfigError(f"memory.embedder is {name!r}: must be one of {', '.join(get_args(EmbedderName))}")


class CachedEmbedder:
    """Another embedder, with the rows of the `size` texts that were asked for last.

    Observations repeat a lot. Each call embeds the texts that aren't known in one batch, each once, also when
    two threads ask for the same; who asks for known ones alone never waits for those who embed.
    """

    def __init__(self, embedder: Embedder, size: int = 8192) -> None:
        if size < 1:
            raise ValueError(f"a cache of {size} texts: must be >= 1")
        self.name, self.dimension, self.size = embedder.name, embedder.dimension, size
        self.hits = 0
        """Texts that were known, and below: that weren't."""
        self.misses = 0
        self._embedder = embedder
        self._rows: OrderedDict[str, FloatRows] = OrderedDict()
        self._lock = threading.Lock()  # of the rows
        self._embedding = threading.Lock()  # taken before the other

    def __len__(self) -> int:
        return len(self._rows)

    def embed(self, texts: Sequence[str]) -> FloatRows:
        """As `Embedder.embed`. The rows are the caller's own."""
        distinct = list(dict.fromkeys(texts))
        rows = self._known(distinct)
        new: list[str] = []
        if len(rows) < len(distinct):
            with self._embedding:
                # Somebody else may have embedded some of them in the meantime.
                rows |= self._known([text for text in distinct if text not in rows])
                new = [text for text in distinct if text not in rows]
                if new:
                    made = dict(zip(new, self._embedder.embed(new), strict=True))
                    self._keep(made)
                    rows |= made
        with self._lock:
            self.misses += len(new)
            self.hits += len(texts) - len(new)
        out = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(out, texts, strict=True):
            row[:] = rows[text]
        return out

    def _known(self, texts: Sequence[str]) -> dict[str, FloatRows]:
        found = {}
        with self._lock:
            for text in texts:
                row = self._rows.get(text)
                if row is not None:
                    self._rows.move_to_end(text)
                    found[text] = row
        return found

    def _keep(self, made: dict[str, FloatRows]) -> None:
        with self._lock:
            for text, row in made.items():
                self._rows[text] = row.copy()  # a view would keep the whole batch
            while len(self._rows) > self.size:
                self._rows.popitem(last=False)

"""EMPO²'s tips of one task: what earlier episodes taught, found again by the state (arXiv 2602.23008).

    candidates(q) = entries whose key has a cosine > 0.5 with q
    recall(q)     = the 10 best of them by score

An entry is made for each step of an episode: the episode's tip, the action taken, the episode's score; its
key is the embedding of the step's state. The oldest leave above `limit`. An exact duplicate (same text,
action, score and key as an entry that is still held) is dropped and changes nothing: the first one keeps its
place. The score is part of it, so a tip that failed at first and then led to success ranks by the success.
An entry never changes, and each new one raises the book's `version`, which therefore names its content: two
books that followed the same log to the same version recall the same, in any process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

LIMIT, TOP, MIN_COSINE = 1000, 10, 0.5
"""The paper's: entries of a task, tips given at a time, the least similarity of the state."""
_WIDE = np.dtype("<f2")
_ROUNDING = 1e-5
"""A float32 cosine is nearer to the true one than this. What may depend on it is decided in float64, row by
row, so that neither the place of a row nor the number of rows has a say."""

Identity = tuple[str, str, float, bytes]


class Tip(msgspec.Struct, frozen=True, array_like=True):
    """One entry. Raises ValueError for a text without content, a score or key that isn't finite."""

    text: str
    """One sentence, in the policy's own words."""
    action: str
    """What it did in this state."""
    score: float
    """Of the whole episode."""
    step: int
    """Of the episode, from 0."""
    source: str
    """`<trial>:<episode>`."""
    key: bytes
    """The state's embedding (`encode_key`). The key of an empty state is zero: it is never recalled."""

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError(f"a tip of {self.source or '?'} has no text: leave it out")
        if not math.isfinite(self.score):
            raise ValueError(f"a tip of {self.source or '?'} has score {self.score}: must be finite")
        if not self.key or len(self.key) % _WIDE.itemsize:
            raise ValueError(f"a tip of {self.source or '?'} has a key of {len(self.key)} bytes")
        if not np.isfinite(decode_key(self.key)).all():
            raise ValueError(f"a tip of {self.source or '?'} has a key with a non-finite number")

    @property
    def identity(self) -> Identity:
        """What two entries must share to be one."""
        return self.text, self.action, self.score, self.key

    @property
    def dimension(self) -> int:
        """Numbers of the key."""
        return len(self.key) // _WIDE.itemsize


def encode_key(embedding: npt.ArrayLike) -> bytes:
    """`[dimension]` -> its direction as little-endian float16. Raises ValueError unless it is finite."""
    vector = np.asarray(embedding, dtype=np.float64)
    if vector.ndim != 1 or not vector.size:
        raise ValueError(f"an embedding of shape {vector.shape}: must be [dimension]")
    if not np.isfinite(vector).all():
        raise ValueError("an embedding has a non-finite number")
    key: bytes = _unit(vector[None])[0].astype(_WIDE).tobytes()
    return key


def decode_key(key: bytes) -> npt.NDArray[Any]:
    """Key -> float16 `[dimension]`."""
    return np.frombuffer(key, dtype=_WIDE)


def _unit(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Rows scaled to length 1; a zero row stays."""
    norms = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    unit: npt.NDArray[np.float64] = rows / np.where(norms > 0, norms, 1.0)
    return unit


class TipBook:
    """The tips of one task: a log of numbered entries, of which the newest are held.

    A book either makes its own log (`add`) or keeps in step with another one (`follow`). It holds the entries
    `first_kept` to `version`. Not safe for concurrent use.
    """

    def __init__(self, task: str, limit: int = LIMIT) -> None:
        if limit < 1:
            raise ValueError(f"limit is {limit}: must be >= 1")
        self.task, self.limit = task, limit
        self.version = 0
        self._tips: list[Tip] = []
        self._held: set[Identity] = set()
        self._rows = np.zeros((0, 0), dtype=np.float32)
        self._scores = np.zeros(0)
        self._start = 0  # of the held entries in _rows and _scores

    def __len__(self) -> int:
        return len(self._tips)

    @property
    def first_kept(self) -> int:
        """Number of the oldest entry held; `version + 1` if there is none."""
        return self.version - len(self._tips) + 1

    @property
    def snapshot(self) -> str:
        """`<task>@<version>`: names exactly what a reader sees now."""
        return f"{self.task}@{self.version}"

    @property
    def tips(self) -> tuple[Tip, ...]:
        """The entries held, oldest first."""
        return tuple(self._tips)

    def add(self, tips: Sequence[Tip]) -> int:
        """Append what isn't held, then drop the oldest above the limit; the new version.

        Raises ValueError for a key of another dimension, before anything is added.
        """
        self._check(tips)
        new = []
        for tip in tips:
            if tip.identity not in self._held:
                self._held.add(tip.identity)
                new.append(tip)
        self._append(new)
        self.version += len(new)
        self._drop(len(self._tips) - self.limit)
        return self.version

    def follow(self, version: int, entries: Sequence[Tip], first_kept: int) -> None:
        """Take over what a log has got since this book's version: its newest `entries`, up to `version`.

        The log decides what is a duplicate and what is dropped: what it holds no more leaves this book, too.
        A version below this book's is another log: the book starts anew. Raises ValueError if entries between
        the two are missing, or for a key of another dimension; the book is then as it was.
        """
        anew = version < self.version
        have = max(0 if anew else self.version, first_kept - 1)
        start = version - len(entries)
        if start > have:
            raise ValueError(f"tips of {self.task}: entries {have + 1} to {start} of the log are missing")
        anew = anew or have > self.version
        new = entries[have - start :]
        self._check(new, alone=anew)
        if anew:
            self._drop(len(self._tips))
        self._append(new)
        self._held.update(tip.identity for tip in new)
        self.version = version
        self._drop(len(self._tips) - (version - first_kept + 1))

    def recall(self, query: npt.ArrayLike, k: int = TOP, min_cosine: float = MIN_COSINE) -> tuple[Tip, ...]:
        """At most `k` tips, of different texts, whose key has a cosine > `min_cosine` with `query` `[dim]`.

        The highest scores first, of equal scores the newest first. A text that several entries share counts
        with its best score; of those with this score the one is given whose state is nearest, the newest of
        equally near ones. A query or key without a direction (zero) has no cosine. Raises ValueError for a
        query of another dimension or with a non-finite number.
        """
        wanted = np.asarray(query, dtype=np.float64)
        if wanted.ndim != 1 or (self._tips and len(wanted) != self._rows.shape[1]):
            raise ValueError(
                f"a query of shape {wanted.shape}; the tips of {self.task} have keys of {self._rows.shape[1]}"
            )
        if not np.isfinite(wanted).all():
            raise ValueError("a query has a non-finite number")
        if not self._tips or not wanted.any():
            return ()
        unit = _unit(wanted[None])[0]
        held = slice(self._start, self._start + len(self._tips))
        rows, scores = self._rows[held], self._scores[held]
        cosines = rows @ unit.astype(np.float32)
        found = np.flatnonzero(cosines > min_cosine - _ROUNDING)
        close = np.abs(cosines[found] - min_cosine) <= _ROUNDING
        if close.any():
            near = ~close
            near[close] = _exact(rows[found[close]], unit) > min_cosine
            found = found[near]
        if min_cosine < 0:
            found = found[rows[found].any(axis=1)]
        order = found[np.lexsort((-found, -scores[found]))]
        by_text: dict[str, list[int]] = {}
        last = 0.0  # the score of the latest text
        for i, score in zip(order.tolist(), scores[order].tolist(), strict=True):
            same = by_text.get(self._tips[i].text)
            if same is not None:
                if score == scores[same[0]]:
                    same.append(i)
            elif len(by_text) < k:
                by_text[self._tips[i].text] = [i]
                last = score
            elif score < last:
                break
        return tuple(self._tips[_nearest(same, rows, cosines, unit)] for same in by_text.values())

    def _check(self, tips: Sequence[Tip], alone: bool = False) -> None:
        known = self._rows.shape[1] if self._tips and not alone else 0
        for tip in tips:
            known = known or tip.dimension
            if tip.dimension != known:
                raise ValueError(
                    f"a tip of {tip.source} has a key of {tip.dimension} numbers; those of {self.task} "
                    f"have {known}"
                )

    def _append(self, tips: Sequence[Tip]) -> None:
        if not tips:
            return
        fresh = _unit(np.stack([decode_key(tip.key) for tip in tips]).astype(np.float64))
        count, end = len(self._tips), self._start + len(self._tips)
        if end + len(tips) > len(self._rows) or fresh.shape[1] != self._rows.shape[1]:
            # Twice the room, and what was dropped leaves: each entry is moved about once.
            capacity = 2 * (count + len(tips))
            rows, scores = np.zeros((capacity, fresh.shape[1]), dtype=np.float32), np.zeros(capacity)
            if count:
                rows[:count] = self._rows[self._start : end]
                scores[:count] = self._scores[self._start : end]
            self._rows, self._scores, self._start, end = rows, scores, 0, count
        self._rows[end : end + len(tips)] = fresh
        self._scores[end : end + len(tips)] = [tip.score for tip in tips]
        self._tips += tips

    def _drop(self, count: int) -> None:
        if count <= 0:
            return
        self._held.difference_update(tip.identity for tip in self._tips[:count])
        del self._tips[:count]
        self._start += count


def _exact(rows: npt.NDArray[np.float32], unit: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Cosines of rows in float64, each summed on its own."""
    products: npt.NDArray[np.float64] = rows.astype(np.float64) * unit
    cosines: npt.NDArray[np.float64] = products.sum(axis=1)
    return cosines


def _nearest(
    same: Sequence[int],
    rows: npt.NDArray[np.float32],
    cosines: npt.NDArray[np.float32],
    unit: npt.NDArray[np.float64],
) -> int:
    """Of entries, newest first, the one with the largest cosine; the first of equal ones."""
    if len(same) == 1:
        return same[0]
    best = cosines[same].max()
    among = [i for i in same if cosines[i] >= best - _ROUNDING]
    return among[int(_exact(rows[among], unit).argmax())]

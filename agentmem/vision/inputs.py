"""The arrays that a model which sees is given beside the ids: patches, places, and positions. Pure.

Positions have three parts, time, height and width (M-RoPE). Text counts on in all three alike; the tokens of
a picture stand at their row and column, and the text behind goes on from the longer side:

    ids      t  t  s  p p p p p p  e  t          a picture of 2 x 3 tokens
    time     0  1  2  3 3 3 3 3 3  6  7
    height   0  1  2  3 3 3 4 4 4  6  7
    width    0  1  2  3 4 5 3 4 5  6  7

Padded on the right, positions are [3, B, L]. Packed into one row they are [4, 1, T]: the first part counts
each sequence's tokens from 0, which is how the model tells where one ends and the next begins.

A picture that several sequences have goes through the vision tower once. Only a prompt's own places are
filled with what the tower makes: where a policy itself writes the token of such a place, that is a token like
any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentmem.vision.picture import Picture
from agentmem.vision.reader import Grid, PictureReader

Ints = NDArray[np.int64]
Sight = tuple[Sequence[int], Picture | None]
"""A sequence's ids, and its picture if it has one."""


@dataclass(frozen=True, slots=True)
class Pictures:
    """Of several sequences."""

    patches: NDArray[np.float32]
    """[P, values]: of all different pictures, one after the other."""
    grids: Ints
    """[different pictures, 3]."""
    places: Ints
    """[N] flat positions in the batch [B, L] that are filled ..."""
    features: Ints
    """[N] ... with these rows of what the tower makes."""

    def arrays(self) -> dict[str, NDArray[np.float32] | Ints]:
        """By the names of `sight.embedded`'s arguments."""
        return {
            "patches": self.patches,
            "grids": self.grids,
            "places": self.places,
            "features": self.features,
        }


def padded(
    reader: PictureReader, sequences: Sequence[Sight], length: int
) -> tuple[Ints | None, Pictures | None]:
    """Positions and pictures of rows padded on the right to `length`; neither without any picture, as a model
    counts text by itself."""
    starts = [b * length for b in range(len(sequences))]
    pictures = _pictures(reader, sequences, starts)
    if pictures is None:
        return None, None
    positions = np.zeros((3, len(sequences), length), dtype=np.int64)
    for b, (ids, picture) in enumerate(sequences):
        positions[:, b, : len(ids)] = _positions(reader, ids, picture)
    return positions, pictures


def packed(reader: PictureReader, sequences: Sequence[Sight]) -> tuple[Ints, Pictures | None]:
    """The same of all sequences in one row. Also without a picture: only the first part keeps them apart."""
    lengths = [len(ids) for ids, _ in sequences]
    counts = np.concatenate([np.arange(n, dtype=np.int64) for n in lengths])
    parts = np.concatenate([_positions(reader, ids, picture) for ids, picture in sequences], axis=1)
    starts = [0, *np.cumsum(lengths)[:-1].tolist()]
    return np.concatenate([counts[None], parts])[:, None, :], _pictures(reader, sequences, starts)


def rope_positions(ids: Sequence[int], grid: Grid | None, pad: int, merge: int) -> Ints:
    """[3, L]. `grid` is that of the only picture, which begins at the first of the ids `pad`."""
    length = len(ids)
    if grid is None:
        return np.broadcast_to(np.arange(length, dtype=np.int64), (3, length))
    tall, wide = grid[1] // merge, grid[2] // merge
    first = ids.index(pad)
    behind = first + tall * wide
    rows, columns = np.divmod(np.arange(tall * wide, dtype=np.int64), wide)
    out = np.empty((3, length), dtype=np.int64)
    out[:, :first] = np.arange(first)
    out[0, first:behind] = first
    out[1, first:behind] = first + rows
    out[2, first:behind] = first + columns
    out[:, behind:] = first + max(tall, wide) + np.arange(length - behind)
    return out


def _positions(reader: PictureReader, ids: Sequence[int], picture: Picture | None) -> Ints:
    grid = None if picture is None else reader.read(picture).grid
    return rope_positions(ids, grid, reader.pad, reader.merge)


def _pictures(reader: PictureReader, sequences: Sequence[Sight], starts: Sequence[int]) -> Pictures | None:
    seen = {picture.sha256: reader.read(picture) for _, picture in sequences if picture is not None}
    if not seen:
        return None
    sizes = [reader.tokens(each.grid) for each in seen.values()]
    begins = dict(zip(seen, [0, *np.cumsum(sizes)[:-1].tolist()], strict=True))
    places, features = [], []
    for start, (ids, picture) in zip(starts, sequences, strict=True):
        if picture is not None:
            count = np.arange(reader.tokens(seen[picture.sha256].grid), dtype=np.int64)
            places.append(start + ids.index(reader.pad) + count)
            features.append(begins[picture.sha256] + count)
    return Pictures(
        np.concatenate([each.patches for each in seen.values()]),
        np.array([each.grid for each in seen.values()], dtype=np.int64),
        np.concatenate(places),
        np.concatenate(features),
    )

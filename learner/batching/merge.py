"""Rows that read the same beginning share one sequence: the same gradient for a fraction of the work.

A row reads its prompt and all but the last token of its response. If that is a prefix of what another row
reads, then causal attention gives the row the same hidden states inside the other's sequence, and its tokens
are predicted there. This covers turns whose prompt extends the previous prompt and response (one sequence per
trial instead of one per turn, which repeats the whole history), and rows of different trials with one prompt
(a group's first turns).

Gradients add up as in separate rows: every row keeps its own targets, advantages and weights. Rows with
different pictures read differently, whatever their ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentmem.vision.picture import Picture
from learner.row import Row


@dataclass(frozen=True, slots=True)
class Merged:
    """A sequence to run through the model, and the rows (indices) that are trained in it.

    Row r predicts its response token j at position `len(prompt) - 1 + j`, wherever it is trained.
    """

    ids: tuple[int, ...]
    rows: tuple[int, ...]
    image: Picture | None = None
    """The picture that all its rows have."""

    def __len__(self) -> int:
        return len(self.ids)


def merge_rows(rows: Sequence[Row], *, merge: bool = True) -> list[Merged]:
    """Every row in exactly one sequence, ordered by their first rows. `merge` False: one sequence per row."""
    inputs = [row.inputs for row in rows]
    if not merge:
        return [Merged(ids, (i,), rows[i].image) for i, ids in enumerate(inputs)]
    by_picture: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        by_picture.setdefault("" if row.image is None else row.image.sha256, []).append(i)
    merged = [
        Merged(ids, tuple(sorted(members)), rows[members[0]].image)
        for same in by_picture.values()
        for ids, members in _hosted(same, inputs)
    ]
    return sorted(merged, key=lambda sequence: sequence.rows[0])


def _hosted(
    chosen: Sequence[int], inputs: Sequence[tuple[int, ...]]
) -> list[tuple[tuple[int, ...], list[int]]]:
    """What is read, and the rows that are a beginning of it."""
    # Sorted, everything that has x as a prefix follows x directly. So from the back, a row either is a prefix
    # of the current host, or no later row can host it.
    order = sorted(chosen, key=inputs.__getitem__)
    hosted: list[tuple[tuple[int, ...], list[int]]] = []
    for i in reversed(order):
        ids = inputs[i]
        if hosted and hosted[-1][0][: len(ids)] == ids:
            hosted[-1][1].append(i)
        else:
            hosted.append((ids, [i]))
    return hosted

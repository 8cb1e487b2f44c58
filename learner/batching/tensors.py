"""The arrays of a micro-batch: what a rank gets, as NumPy so that it travels cheaply and needs no torch.

N trained tokens, M value reads, B x L token ids (`packed`: 1 x T). Trained tokens are ordered by how they
were sampled, so that each way of sampling is one slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentmem.sampling import Sampling
from agentmem.vision.inputs import Pictures, packed, padded
from agentmem.vision.picture import PictureError
from agentmem.vision.reader import PictureReader
from learner.batching.merge import Merged, merge_rows
from learner.batching.plan import MicroPlan, Strategy, plan
from learner.row import Part, Row

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One forward and backward pass. Without sequences it is one padding token and trains nothing."""

    ids: Ints
    """[B, L], padded on the right with 0."""
    positions: Ints | None
    """[1, T] of a packed row: starts at 0 in every sequence, which marks the blocks; None when padded. With
    pictures, and packed for a model that sees: as `agentmem.vision.inputs` has it."""
    index: Ints
    """[N] flat positions in `ids` whose logits predict `targets`."""
    targets: Ints
    advantage: Floats
    engine: Floats
    """[N] log-probs as reported by the sampler."""
    replayed: Flags
    """[N] tokens of groups that were trained before."""
    off_policy: Flags
    """[N] tokens that were sampled for another prompt than they are trained on."""
    part: Ints
    """[N] `Part` of each token."""
    turn: Ints
    """[N] number of each token's row within this micro-batch: 0, 1, …"""
    row_tokens: Ints
    """[N] trained tokens of each token's row."""
    trial_tokens: Ints
    """[N] trained tokens of each token's trial within the mini-batch."""
    sampling: tuple[tuple[Sampling, int, int], ...]
    """(how, first, behind the last) slices of the N tokens."""
    value_at: Ints
    """[M] flat positions at which the value head is read."""
    value_target: Floats
    value_row: Ints
    """[M] the row that each value belongs to (index of the plan's rows)."""
    real_tokens: int
    """Tokens of `ids` that aren't padding."""
    pictures: Pictures | None = None
    """Those of its sequences."""


@dataclass(frozen=True, slots=True)
class MiniBatch:
    """One optimiser step of one rank, and the counts of the whole step over all ranks."""

    micro: tuple[MicroBatch, ...]
    tokens: int
    rows: int
    trials: int
    values: int
    parts: tuple[int, ...] = ()
    """Trained tokens of each `Part`."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Everything that one rank trains in an update."""

    minibatches: tuple[MiniBatch, ...]


@dataclass(frozen=True, slots=True)
class PlanStats:
    """How well the plan uses the device, over all ranks."""

    sequences: int = 0
    row_tokens: int = 0
    """Tokens that separate rows would have."""
    real_tokens: int = 0
    computed_tokens: int = 0
    """Padding included."""
    microbatches: int = 0
    minibatches: int = 0


def shards(
    rows: Sequence[Row],
    *,
    strategy: Strategy,
    budget: int,
    minibatches: int = 1,
    ranks: int = 1,
    seed: int = 0,
    merge: bool = True,
    reader: PictureReader | None = None,
) -> tuple[list[Shard], PlanStats]:
    """Plan an update and fill the arrays of every rank. `reader`: of a model that sees. Raises PictureError
    for a picture that this model can't take."""
    if reader is None and any(row.image is not None for row in rows):
        raise PictureError("a turn to be trained has a picture, but the policy's model reads text alone")
    merged = merge_rows(rows, merge=merge)
    steps = plan(
        [len(s) for s in merged],
        [sum(rows[r].trained for r in s.rows) for s in merged],
        strategy=strategy,
        budget=budget,
        minibatches=minibatches,
        ranks=ranks,
        seed=seed,
    )
    per_rank: list[list[MiniBatch]] = [[] for _ in range(ranks)]
    for step in steps:
        members = [r for s in step.sequences() for r in merged[s].rows]
        trial_tokens: dict[int, int] = {}
        for r in members:
            trial_tokens[rows[r].trial] = trial_tokens.get(rows[r].trial, 0) + rows[r].trained
        counts = (
            sum(trial_tokens.values()),
            sum(1 for r in members if rows[r].trained),
            sum(1 for n in trial_tokens.values() if n),
            sum(1 for r in members if rows[r].value_target is not None),
            tuple(sum(rows[r].trained for r in members if rows[r].part is part) for part in Part),
        )
        for rank, micros in enumerate(step.ranks):
            filled = tuple(fill(micro, merged, rows, trial_tokens, strategy, reader) for micro in micros)
            per_rank[rank].append(MiniBatch(filled, *counts))
    every = [m for rank in per_rank for mini in rank for m in mini.micro]
    stats = PlanStats(
        sequences=len(merged),
        row_tokens=sum(len(row.inputs) for row in rows),
        real_tokens=sum(m.real_tokens for m in every),
        computed_tokens=sum(m.ids.size for m in every),
        microbatches=len(every),
        minibatches=len(steps),
    )
    return [Shard(tuple(r)) for r in per_rank], stats


def fill(
    micro: MicroPlan,
    merged: Sequence[Merged],
    rows: Sequence[Row],
    trial_tokens: dict[int, int],
    strategy: Strategy,
    reader: PictureReader | None = None,
) -> MicroBatch:
    """The arrays of one micro-batch."""
    ids, positions, starts = _lay_out([merged[s] for s in micro], strategy)
    pictures: Pictures | None = None
    if reader is not None and micro:
        sights = [(merged[s].ids, merged[s].image) for s in micro]
        positions, pictures = (
            packed(reader, sights) if strategy == "packed" else padded(reader, sights, ids.shape[1])
        )
    by_sampling: dict[Sampling, list[tuple[Row, int]]] = {}
    value_at: list[int] = []
    value_target: list[float] = []
    value_row: list[int] = []
    for start, s in zip(starts, micro, strict=True):
        for r in merged[s].rows:
            row = rows[r]
            if row.trained:
                by_sampling.setdefault(row.sampling, []).append((row, start))
            if row.value_target is not None:
                value_at.append(start + len(row.prompt) - 1)
                value_target.append(row.value_target)
                value_row.append(r)
    index: list[int] = []
    targets: list[int] = []
    advantage: list[float] = []
    engine: list[float] = []
    replayed: list[bool] = []
    off_policy: list[bool] = []
    part: list[int] = []
    turn: list[int] = []
    row_tokens: list[int] = []
    of_trial: list[int] = []
    slices: list[tuple[Sampling, int, int]] = []
    turns = 0
    for sampling, members in by_sampling.items():
        begin = len(targets)
        for row, start in members:
            n, first = row.trained, start + len(row.prompt) - 1 + row.forced
            index.extend(range(first, first + n))
            targets.extend(row.response[row.forced :])
            engine.extend(row.engine[row.forced :])
            advantage.extend([row.advantage] * n)
            replayed.extend([row.replayed] * n)
            off_policy.extend([row.off_policy] * n)
            part.extend([row.part] * n)
            turn.extend([turns] * n)
            turns += 1
            row_tokens.extend([n] * n)
            of_trial.extend([trial_tokens[row.trial]] * n)
        slices.append((sampling, begin, len(targets)))
    return MicroBatch(
        ids=ids,
        positions=positions,
        index=np.array(index, dtype=np.int64),
        targets=np.array(targets, dtype=np.int64),
        advantage=np.array(advantage, dtype=np.float32),
        engine=np.array(engine, dtype=np.float32),
        replayed=np.array(replayed, dtype=np.bool_),
        off_policy=np.array(off_policy, dtype=np.bool_),
        part=np.array(part, dtype=np.int64),
        turn=np.array(turn, dtype=np.int64),
        row_tokens=np.array(row_tokens, dtype=np.int64),
        trial_tokens=np.array(of_trial, dtype=np.int64),
        sampling=tuple(slices),
        value_at=np.array(value_at, dtype=np.int64),
        value_target=np.array(value_target, dtype=np.float32),
        value_row=np.array(value_row, dtype=np.int64),
        real_tokens=sum(len(merged[s]) for s in micro),
        pictures=pictures,
    )


def _lay_out(sequences: Sequence[Merged], strategy: Strategy) -> tuple[Ints, Ints | None, list[int]]:
    """Token ids, positions if packed, and the flat position at which each sequence starts."""
    if not sequences:
        return np.zeros((1, 1), dtype=np.int64), None, []
    if strategy == "packed":
        lengths = [len(s) for s in sequences]
        starts = [0, *np.cumsum(lengths)[:-1].tolist()]
        ids = np.array([[i for s in sequences for i in s.ids]], dtype=np.int64)
        positions = np.concatenate([np.arange(n, dtype=np.int64) for n in lengths])[None, :]
        return ids, positions, starts
    longest = max(len(s) for s in sequences)
    padded = np.zeros((len(sequences), longest), dtype=np.int64)
    for b, s in enumerate(sequences):
        padded[b, : len(s)] = s.ids
    return padded, None, [b * longest for b in range(len(sequences))]

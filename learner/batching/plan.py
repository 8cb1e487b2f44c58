"""Sequences -> mini-batches -> ranks -> micro-batches.

Guarantees, for any lengths, budget, number of ranks and seed:

* every sequence is in exactly one micro-batch of one rank;
* a micro-batch of more than one sequence costs at most `budget` tokens, where its cost is what the device
computes:
  rows x longest when padded (`sorted`), the sum of lengths when packed into one row (`packed`);
* within a mini-batch all ranks have equally many micro-batches (some may be empty), since every rank must
take part
  in every collective;
* the plan depends on its arguments alone.

Mini-batches are random cuts with about equal numbers of trained tokens; there are fewer than asked for when
there are fewer sequences.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Strategy = Literal["sorted", "packed"]
MicroPlan = tuple[int, ...]
"""Indices of sequences; empty only to keep ranks in step."""


@dataclass(frozen=True, slots=True)
class MiniPlan:
    """One optimiser step: `ranks[r][m]` is micro-batch m of rank r."""

    ranks: tuple[tuple[MicroPlan, ...], ...]

    def sequences(self) -> list[int]:
        """All sequences of the mini-batch, in ascending order."""
        return sorted(i for rank in self.ranks for micro in rank for i in micro)


def plan(
    lengths: Sequence[int],
    weights: Sequence[int],
    *,
    strategy: Strategy,
    budget: int,
    minibatches: int = 1,
    ranks: int = 1,
    seed: int = 0,
) -> list[MiniPlan]:
    """Plan one pass. `lengths[i]` tokens are computed and `weights[i]` tokens are trained in sequence i.

    No sequences give no mini-batches. Raises ValueError for a budget, a number of mini-batches or ranks below
    1.
    """
    if len(lengths) != len(weights):
        raise ValueError(f"{len(weights)} weights for {len(lengths)} lengths")
    for name, value in (("budget", budget), ("minibatches", minibatches), ("ranks", ranks)):
        if value < 1:
            raise ValueError(f"{name} is {value}: must be >= 1")
    return [_step(chosen, lengths, strategy, budget, ranks) for chosen in _split(weights, minibatches, seed)]


def cost(lengths: Sequence[int], micro: MicroPlan, strategy: Strategy) -> int:
    """Tokens that a device computes for a micro-batch."""
    chosen = [lengths[i] for i in micro]
    if not chosen:
        return 0
    return len(chosen) * max(chosen) if strategy == "sorted" else sum(chosen)


def _split(weights: Sequence[int], parts: int, seed: int) -> list[list[int]]:
    """Random non-empty parts of about equal weight."""
    order = list(range(len(weights)))
    random.Random(seed).shuffle(order)
    parts = min(parts, len(order))
    total = sum(weights)
    out: list[list[int]] = []
    taken, part = 0, []
    for place, i in enumerate(order):
        part.append(i)
        taken += weights[i]
        open_parts, rest = parts - len(out) - 1, len(order) - place - 1
        # Close a part when its share is reached, or when each part to come needs one of the sequences left.
        if open_parts and (taken * parts >= total * (len(out) + 1) or rest <= open_parts):
            out.append(part)
            part = []
    if part:
        out.append(part)
    return out


def _step(
    chosen: Sequence[int], lengths: Sequence[int], strategy: Strategy, budget: int, ranks: int
) -> MiniPlan:
    loads = [0] * ranks
    dealt: list[list[int]] = [[] for _ in range(ranks)]
    for i in sorted(chosen, key=lambda i: (-lengths[i], i)):
        least = loads.index(min(loads))
        dealt[least].append(i)
        loads[least] += lengths[i]
    micros = [_micro_batches(mine, lengths, strategy, budget) for mine in dealt]
    most = max(len(m) for m in micros)
    return MiniPlan(tuple(tuple(m + [()] * (most - len(m))) for m in micros))


def _micro_batches(
    mine: Sequence[int], lengths: Sequence[int], strategy: Strategy, budget: int
) -> list[MicroPlan]:
    """Cut a rank's sequences, longest first, into micro-batches within the budget."""
    if strategy == "packed":
        return _first_fit(mine, lengths, budget)
    out: list[MicroPlan] = []
    part: list[int] = []
    for i in mine:
        if part and (len(part) + 1) * lengths[part[0]] > budget:
            out.append(tuple(part))
            part = []
        part.append(i)
    if part:
        out.append(tuple(part))
    return out


def _first_fit(mine: Sequence[int], lengths: Sequence[int], budget: int) -> list[MicroPlan]:
    """First-fit decreasing: each sequence into the first bin with room."""
    bins: list[list[int]] = []
    rooms: list[int] = []
    for i in mine:
        place = next((b for b, room in enumerate(rooms) if room >= lengths[i]), None)
        if place is None:
            bins.append([i])
            rooms.append(budget - lengths[i])
        else:
            bins[place].append(i)
            rooms[place] -= lengths[i]
    return [tuple(b) for b in bins]

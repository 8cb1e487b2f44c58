"""A bank to be looked things up in: which records' situations are nearest to this one (RAG).

    cosine(query, record) = e(q, o) · e(q', o')

The situation, task and first observation, is the key; the hint isn't part of it. Equal cosines keep the
bank's order, so that the same bank and embedder find the same in any process.

While something is learnt about looked-up hints, a training task must not find its own record: on test tasks,
which have none, what was learnt would not hold. `without` leaves it out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from agentmem.memory.bank.records import BankRecord
from agentmem.memory.embedding import Embedder


@dataclass(frozen=True, slots=True)
class Found:
    """A record, its place on the shelf, and how near its situation is (cosine)."""

    place: int
    record: BankRecord
    cosine: float


class Shelf:
    """See the module's docstring. Raises ValueError for a bank without records."""

    def __init__(self, records: Sequence[BankRecord], embedder: Embedder) -> None:
        if not records:
            raise ValueError("a bank without records: there is nothing to look up")
        self.records = tuple(records)
        self._embedder = embedder
        self._keys = embedder.embed([situation(record.q, record.o) for record in records])

    def nearest(
        self, task: str, observation: str, k: int = 1, *, without: Collection[tuple[str, str]] = ()
    ) -> tuple[Found, ...]:
        """At most `k` records, the nearest first, none of them of a task `without` (`BankRecord.task`).
        A situation without content finds nothing."""
        (query,) = self._embedder.embed([situation(task, observation)])
        if not query.any():
            return ()
        cosines = self._keys @ query
        order = (int(i) for i in np.argsort(-cosines, kind="stable"))
        allowed = (i for i in order if self.records[i].task not in without)
        return tuple(Found(i, self.records[i], float(cosines[i])) for i in islice(allowed, k))


def situation(task: str, observation: str) -> str:
    """What a record is found by."""
    return f"{task}\n{observation}".strip()

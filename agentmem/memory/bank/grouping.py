"""Which traces a hint is written from: traces by task, and from them the jobs of a build. Pure.

A plan depends on the traces alone, not on the order in which they come or where they were recorded, so the
same sources give the same jobs with the same names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from agentmem.memory.bank.records import Kind
from agentmem.memory.bank.traces import Trace


@dataclass(frozen=True, slots=True)
class Situation:
    """A task as a memory policy is asked about it, with what was played from it. All its traces begin with
    the same observation."""

    domain: str
    task_id: str | int
    q: str
    o: str
    traces: tuple[Trace, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """One hint to write."""

    kind: Kind
    situation: Situation
    traces: tuple[Trace, ...]
    """What it is written from, successes first."""

    def name(self, writer: str, settings: Sequence[object]) -> str:
        """The id of its record: what it is written from, by whom, and by which settings."""
        of = self.situation
        told = (of.domain, of.task_id, of.q, of.o, [t.digest for t in self.traces], writer, settings)
        return hashlib.blake2b(msgspec.json.encode(told), digest_size=10).hexdigest()


def by_task(traces: Iterable[Trace]) -> list[Situation]:
    """Traces by task, each played course once. Raises ValueError for a trace without the task's text."""
    found: dict[tuple[str, str, str, str], dict[str, Trace]] = {}
    for trace in traces:
        if not trace.task_text.strip():
            raise ValueError(f"trace {trace.source}: the task of {trace.domain} {trace.task_id} has no text")
        key = (trace.domain, str(trace.task_id), trace.task_text, trace.first)
        same = found.setdefault(key, {})
        digest = trace.digest
        # Of the same course recorded twice, the name that sorts first: not the order decides.
        if digest not in same or trace.source < same[digest].source:
            same[digest] = trace
    situations = []
    for (domain, _, q, o), courses in sorted(found.items(), key=lambda item: item[0]):
        ordered = tuple(courses[digest] for digest in sorted(courses))
        situations.append(Situation(domain, ordered[0].task_id, q, o, ordered))
    return situations


def plan(situations: Iterable[Situation], kind: str = "auto", per_task: int = 1, most: int = 4) -> list[Job]:
    """The jobs, task by task. `kind`: a Kind, or `auto` (a pair, else several, else the one that there is);
    `per_task`: most jobs of a task; `most`: traces that a job of the kind `several` reads."""
    return [job for situation in situations for job in _jobs(situation, kind, per_task, most)]


def _jobs(situation: Situation, wanted: str, per_task: int, most: int) -> list[Job]:
    won, lost = _successes(situation.traces), _failures(situation.traces)
    if wanted == "auto":
        wanted = _best_kind(len(won), len(lost))
    if wanted == Kind.SEVERAL:
        chosen = _several(won, lost, most)
        return [Job(Kind.SEVERAL, situation, chosen)] if len(chosen) > 1 else []
    if wanted == Kind.PAIR:
        pairs = [(success, _nearest(success, lost)) for success in won] if lost else []
        return [Job(Kind.PAIR, situation, pair) for pair in pairs[:per_task]]
    alone = won if wanted == Kind.SUCCESS else lost
    return [Job(Kind(wanted), situation, (trace,)) for trace in alone[:per_task]]


def _best_kind(won: int, lost: int) -> Kind:
    if won and lost:
        return Kind.PAIR
    if won + lost > 1:
        return Kind.SEVERAL
    return Kind.SUCCESS if won else Kind.FAILURE


def _successes(traces: Iterable[Trace]) -> list[Trace]:
    """The shortest way first."""
    return sorted((t for t in traces if t.success), key=lambda t: (len(t.steps), t.digest))


def _failures(traces: Iterable[Trace]) -> list[Trace]:
    """What came nearest to the goal first: the best score, then the longest way."""
    lost = [t for t in traces if not t.success]
    worst = float("-inf")
    return sorted(lost, key=lambda t: (-(t.score if t.score is not None else worst), -len(t.steps), t.digest))


def _nearest(success: Trace, lost: Sequence[Trace]) -> Trace:
    """The failure that parted last from the successful course: what made the difference is then one step."""

    def shared(trace: Trace) -> int:
        pairs = list(zip(success.actions, trace.actions, strict=False))
        return next((n for n, (a, b) in enumerate(pairs) if a != b), len(pairs))

    return max(lost, key=shared)  # of equal ones the first


def _several(won: list[Trace], lost: list[Trace], most: int) -> tuple[Trace, ...]:
    """Of both as many as possible, successes first."""
    successes = min(len(won), max(most - len(lost), (most + 1) // 2))
    return (*won[:successes], *lost[: most - successes])

"""`agentmem compare`: what evaluations say beside each other. Pure; printed and drawn elsewhere.

- An *arm* is a source under one condition (with memory, without, …).
- *Pairs* are compared task by task: each source with the first one that has the same condition, and within a
  source the conditions with each other (the memory gap). Where two arms played different tasks only the
  common ones count, and a note says how many were left out; arms without a common task are refused.
- *Equal budgets of evaluation*: success at a cost of at most `cuts` a trial, the least of the arms' dearest
  trials (`agentmem.evaluation.budget`).
- *Equal budgets of training*: each run's last evaluation made before it had spent `training_cuts`, the least
  of the runs' totals. Episodes, sampled tokens (reflections and tips counted), seconds of updates (waiting
  for trials, updating, pushing weights; evaluations and what a crash lost are not counted).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentmem.app.evaluation.sources import Source
from agentmem.app.reporting.learning_log import episodes_of
from agentmem.app.reporting.records import OTHER_AGENT, OTHER_INSTANCES, EventRecord, evals_of, updates_of
from agentmem.evaluation.behaviour import (
    Entropy,
    WorstTask,
    fixation,
    repeat_failure,
    trajectory_entropy,
    unusable,
    worst_task,
)
from agentmem.evaluation.budget import Cost, Spent, common_cut, spent, within_budget
from agentmem.evaluation.domains import DomainFigures, figures_by_domain, lines_by_domain
from agentmem.evaluation.lines import TrialLine, by_task
from agentmem.evaluation.paired import Difference, success_difference
from agentmem.evaluation.pass_at_k import Share, pass_at_k
from agentmem.failures import ConfigError


@dataclass(frozen=True, slots=True)
class Name:
    """Of an arm."""

    source: str
    condition: str

    def __str__(self) -> str:
        return f"{self.source}, {self.condition.replace('_', ' ')}"


@dataclass(frozen=True, slots=True)
class Arm:
    """A source under one condition."""

    name: Name
    update: int
    tasks: int
    p_at_k: list[Share]
    score: float | None
    repeat_failure: Share | None
    fixation: Share | None
    unusable: Share | None
    entropy: Entropy | None
    worst_task: WorstTask | None
    spent: Spent
    within: dict[str, Share]
    """Cost -> success within the comparison's cut."""
    domains: dict[str, DomainFigures]
    """Of a mixture of environments: the figures of each domain."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Arm b minus arm a, for p@1, p@2, … over their common tasks."""

    a: Name
    b: Name
    differences: list[Difference]
    only_a: int
    """Tasks that b didn't play."""
    only_b: int
    domains: dict[str, Difference]
    """Of a mixture: the last of the differences by domain, where they have common tasks."""

    @property
    def within_source(self) -> bool:
        """Two conditions of one source: a gap."""
        return self.a.source == self.b.source


@dataclass(frozen=True, slots=True)
class Point:
    """An evaluation in the course of training, with what had been spent on training before it."""

    condition: str
    update: int
    episodes: float
    tokens: float
    wall_s: float
    p_at_k: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True, slots=True)
class Training:
    """A run's evaluations, and what its training took in all."""

    source: str
    updates: int
    spent: dict[str, float]
    points: list[Point]
    at_cut: dict[str, dict[str, Point]]
    """Cost -> condition -> the last evaluation within the training cut."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that is said."""

    k: int
    """Most episodes of a trial."""
    arms: list[Arm]
    pairs: list[Pair]
    cuts: dict[str, float]
    training: list[Training]
    training_cuts: dict[str, float]
    notes: list[str]


def compare(sources: Sequence[Source], *, alone: bool = False) -> Comparison:
    """Raises ConfigError if there is nothing to compare (unless it may stand `alone`), or two arms share no
    task."""
    arms = [(source, condition, lines) for source in sources for condition, lines in source.arms.items()]
    if len(arms) < 2 and not alone:
        raise ConfigError(f"{sources[0].label} has one condition only: name a second run or evaluation")
    k = max(len(line.episodes) for _, _, lines in arms for line in lines)
    cuts = {cost.value: common_cut([lines for _, _, lines in arms], cost) for cost in Cost}
    notes = _setting_notes(sources)
    pairs = _pairs(sources, k)
    for pair in pairs:
        if not pair.within_source and (pair.only_a or pair.only_b):
            notes.append(
                f"{pair.a} and {pair.b} have {pair.differences[0].tasks} tasks in common, which their "
                f"difference is about; {pair.only_a} and {pair.only_b} were played by one of them only"
            )
    training = [_training(source) for source in sources if source.trained]
    training_cuts = {cost.value: min(t.spent[cost] for t in training) for cost in Cost if len(training) > 1}
    return Comparison(
        k=k,
        arms=[_arm(source, condition, lines, k, cuts) for source, condition, lines in arms],
        pairs=pairs,
        cuts=cuts,
        training=[_cut(t, training_cuts) for t in training],
        training_cuts=training_cuts,
        notes=notes,
    )


def _arm(source: Source, condition: str, lines: list[TrialLine], k: int, cuts: dict[str, float]) -> Arm:
    scores = [line.score for line in lines if line.score is not None]
    return Arm(
        name=Name(source.label, condition),
        update=source.update,
        tasks=len(by_task(lines)),
        p_at_k=pass_at_k([line.solved for line in lines], k),
        score=sum(scores) / len(scores) if scores else None,
        repeat_failure=repeat_failure(lines),
        fixation=fixation(lines),
        unusable=unusable(lines),
        entropy=trajectory_entropy(lines),
        worst_task=worst_task(lines, k),
        spent=spent(lines),
        within={cost.value: within_budget(lines, cost, cuts[cost]) for cost in Cost},
        domains=figures_by_domain(lines, k, source.left_out),
    )


def _pairs(sources: Sequence[Source], k: int) -> list[Pair]:
    pairs = []
    for n, source in enumerate(sources):
        found = False
        for condition in source.arms:
            first = next((s for s in sources[:n] if condition in s.arms), None)
            if first is not None:
                pairs.append(_pair(first, condition, source, condition, k))
                found = True
        if n and not found:  # nobody before it has one of its conditions
            pairs.append(_pair(sources[0], next(iter(sources[0].arms)), source, next(iter(source.arms)), k))
    for source in sources:
        # With memory minus without; of any others (attempts) each minus the first.
        reference, *others = sorted(source.arms, key=lambda condition: condition != "with_memory")
        for other in others:
            a, b = (other, reference) if reference == "with_memory" else (reference, other)
            pairs.append(_pair(source, a, source, b, k))
    return pairs


def _pair(a: Source, condition_a: str, b: Source, condition_b: str, k: int) -> Pair:
    names = (Name(a.label, condition_a), Name(b.label, condition_b))
    of_a, of_b = a.arms[condition_a], b.arms[condition_b]
    tasks_a, tasks_b = ({line.instance for line in lines} for lines in (of_a, of_b))
    if not tasks_a & tasks_b:
        raise ConfigError(
            f"{names[0]} ({a.path}) and {names[1]} ({b.path}) have no task in common: evaluate both on the "
            "same instances (evaluation.seed, evaluation.tasks, env.options)"
        )
    return Pair(
        a=names[0],
        b=names[1],
        differences=[success_difference(of_a, of_b, n) for n in range(1, k + 1)],
        only_a=len(tasks_a - tasks_b),
        only_b=len(tasks_b - tasks_a),
        domains=_by_domain(of_a, of_b, k),
    )


def _by_domain(a: Sequence[TrialLine], b: Sequence[TrialLine], k: int) -> dict[str, Difference]:
    of_a, of_b = lines_by_domain(a), lines_by_domain(b)
    return {
        domain: success_difference(of_a[domain], of_b[domain], k)
        for domain in of_a
        if {line.instance for line in of_a[domain]} & {line.instance for line in of_b.get(domain, [])}
    }


def _training(source: Source) -> Training:
    updates = updates_of(source.records)
    points = []
    for record in evals_of(source.records):
        before = [u for u in updates if u.update <= record.update]
        points.append(
            Point(
                condition=record.condition,
                update=record.update,
                episodes=sum(episodes_of(u) for u in before),
                tokens=sum(u.sampled_tokens + u.tip_tokens for u in before),
                wall_s=sum(u.wait_s + u.update_s + u.push_s for u in before),
                p_at_k=record.p_at_k,
                low=record.low,
                high=record.high,
            )
        )
    total = {
        Cost.EPISODES.value: float(sum(episodes_of(u) for u in updates)),
        Cost.TOKENS.value: float(sum(u.sampled_tokens + u.tip_tokens for u in updates)),
        Cost.WALL.value: sum(u.wait_s + u.update_s + u.push_s for u in updates),
    }
    return Training(source.label, updates[-1].update, total, points, {})


def _cut(training: Training, cuts: dict[str, float]) -> Training:
    at_cut: dict[str, dict[str, Point]] = {}
    for cost, most in cuts.items():
        # The points come by update, so the last one that fits stays.
        at_cut[cost] = {p.condition: p for p in training.points if float(getattr(p, cost)) <= most}
    return Training(training.source, training.updates, training.spent, training.points, at_cut)


def _setting_notes(sources: Sequence[Source]) -> list[str]:
    known = [source for source in sources if source.env is not None]
    notes = [
        f"{source.label}: {record.detail}"
        for source in sources
        for record in source.records
        if isinstance(record, EventRecord) and record.what in (OTHER_INSTANCES, OTHER_AGENT)
    ]
    for other in known[1:]:
        first = known[0]
        keys = sorted({*first.settings, *other.settings})
        differing = [
            f"{key} {first.settings.get(key)!r} and {other.settings.get(key)!r}"
            for key in keys
            if first.settings.get(key) != other.settings.get(key)
        ]
        if differing:
            notes.append(
                f"{first.label} and {other.label} were evaluated under differing settings: "
                f"{'; '.join(differing)}"
            )
    return notes

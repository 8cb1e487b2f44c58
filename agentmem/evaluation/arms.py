"""Arms of Mem-π's evaluation beside each other: one bank, one frozen agent, the same held-out tasks. Pure.

An arm is a way to come by a hint. From the trials' lines alone, over seeds:

- *Success*: the mean over seeds of the share of tasks solved, and the seeds' standard deviation (n − 1).
- *Difference* of two arms: paired by task, each task's trials of all seeds averaged; beside it Student's
  interval over the seeds' own differences.
- *Difficulty*: a task is *easy* if the base agent (arm `none`) solves it in at least half of its trials,
  else *hard*.
- *Abstention*: the share of trials without a hint, on easy and on hard tasks. *Injected tokens*: of the
  hints, mean of a trial; an abstention counts 0.
- *Negative transfer*: of the trials that the base agent solves, the share that the arm loses; beside it, of
  those that it loses, the share that the arm solves. Paired by seed, task and sample.
- *Decisions* of an arm that may abstain are judged by the same arm made to give a hint always, and by none:
  a hint *helps* where the former solves what the latter doesn't, *hurts* the other way round.
- *Oracle*: of each trial the better one of `none` and `full-always`, known only afterwards: an upper bound of
  what deciding can gain over these hints. Where they are equal it gives no hint.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from agentmem.evaluation.difference import over_seeds
from agentmem.evaluation.lines import TrialLine, per_key
from agentmem.evaluation.paired import Difference, per_task, success_difference
from agentmem.evaluation.pass_at_k import Share, wilson

NONE, FULL, ALWAYS, ORACLE = "none", "full", "full-always", "oracle"
JUDGED_BY = {"full": "full-always", "rag-abstain": "rag"}
"""Arms that may abstain, and the arm that gives a hint of the same origin always."""
OUTCOMES = ("helps", "hurts", "equal")
Seeds = Mapping[int, Sequence[TrialLine]]
"""Seed -> an arm's lines."""


@dataclass(frozen=True, slots=True)
class ArmRow:
    """An arm. Shares are None where nothing can be said of them."""

    arm: str
    by_seed: dict[int, float]
    """Success."""
    mean: float
    std: float | None
    trials: int
    score: float | None
    """The benchmark's own, mean of the trials."""
    hint_tokens: float
    abstained: Share | None
    abstained_easy: Share | None
    abstained_hard: Share | None
    lost: Share | None
    """Of the trials that the base agent solves."""
    won: Share | None
    """Of those that it loses."""
    late: int
    """Abstentions because no answer came in time."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """b − a."""

    a: str
    b: str
    tasks: Difference
    by_seed: dict[int, float]
    seeds_low: float | None
    """Student's 95 % interval over seeds; None for a single one."""
    seeds_high: float | None


@dataclass(frozen=True, slots=True)
class Decisions:
    """`generate[x]`, `abstain[x]`: how often an arm did so where a hint helps, hurts, or changes nothing."""

    arm: str
    judged_by: str
    generate: dict[str, int]
    abstain: dict[str, int]


@dataclass(frozen=True, slots=True)
class ArmsReport:
    """Everything that is said."""

    seeds: list[int]
    tasks: int
    easy: int
    """Of them."""
    rows: list[ArmRow]
    contrasts: list[Contrast]
    decisions: list[Decisions]
    notes: list[str]


def arms_report(arms: Mapping[str, Seeds]) -> ArmsReport:
    """`arms`: in the order in which they shall stand. Raises ValueError without the arm `none`."""
    if NONE not in arms:
        raise ValueError("the arm 'none' wasn't played: the others are read against it")
    played = dict(arms)
    if ALWAYS in arms and ORACLE not in arms:
        oracle = oracle_lines(arms[NONE], arms[ALWAYS])
        if oracle:
            played[ORACLE] = oracle
    base = per_task(_all(played[NONE]), _solved)
    easy = {task for task, share in base.items() if share >= 0.5}
    return ArmsReport(
        seeds=sorted({seed for seeds in played.values() for seed in seeds}),
        tasks=len(base),
        easy=len(easy),
        rows=[_row(arm, seeds, played[NONE], easy) for arm, seeds in played.items()],
        contrasts=_contrasts(played),
        decisions=[
            found
            for arm, always in JUDGED_BY.items()
            if arm in played and always in played
            and (found := decisions(arm, always, played[arm], played[always], played[NONE])) is not None
        ],
        notes=_notes(played),
    )  # fmt: skip


def oracle_lines(none: Seeds, always: Seeds) -> dict[int, list[TrialLine]]:
    """See the module's docstring. Of seeds and trials that both have."""
    found: dict[int, list[TrialLine]] = {}
    for seed in none:
        without, with_hint = per_key(none[seed]), per_key(always.get(seed, ()))
        better = [
            msgspec.structs.replace(
                with_hint[key] if _value(with_hint[key]) > _value(line) else line, condition=ORACLE
            )
            for key, line in without.items()
            if key in with_hint
        ]
        if better:
            found[seed] = better
    return found


def decisions(arm: str, judged_by: str, decided: Seeds, always: Seeds, none: Seeds) -> Decisions | None:
    """How the decisions of an arm compare with what a hint would have done; None without a common trial."""
    counts = {decision: dict.fromkeys(OUTCOMES, 0) for decision in ("generate", "abstain")}
    for seed, lines in decided.items():
        with_hint, without = per_key(always.get(seed, ())), per_key(none.get(seed, ()))
        for key, line in per_key(lines).items():
            if key in with_hint and key in without:
                gain = _solved(with_hint[key]) - _solved(without[key])
                outcome = OUTCOMES[0 if gain > 0 else 1 if gain < 0 else 2]
                counts["abstain" if _abstains(line) else "generate"][outcome] += 1
    if not any(sum(of.values()) for of in counts.values()):
        return None
    return Decisions(arm, judged_by, counts["generate"], counts["abstain"])


def _row(arm: str, seeds: Seeds, none: Seeds, easy: set[str | int]) -> ArmRow:
    lines = _all(seeds)
    by_seed = {seed: statistics.fmean(map(_solved, own)) for seed, own in sorted(seeds.items()) if own}
    scores = [line.score for line in lines if line.score is not None]
    pairs = [
        (_solved(base[key]), _solved(line))
        for seed, own in seeds.items()
        if (base := per_key(none.get(seed, ())))
        for key, line in per_key(own).items()
        if key in base
    ]
    asked = arm != NONE
    return ArmRow(
        arm=arm,
        by_seed=by_seed,
        mean=statistics.fmean(by_seed.values()),
        std=statistics.stdev(by_seed.values()) if len(by_seed) > 1 else None,
        trials=len(lines),
        score=statistics.fmean(scores) if scores else None,
        hint_tokens=statistics.fmean(sum(said.hint_tokens for said in line.advice) for line in lines),
        abstained=_share([_abstains(line) for line in lines]) if asked else None,
        abstained_easy=_share([_abstains(x) for x in lines if x.instance in easy]) if asked else None,
        abstained_hard=_share([_abstains(x) for x in lines if x.instance not in easy]) if asked else None,
        lost=_share([not now for before, now in pairs if before]) if asked else None,
        won=_share([bool(now) for before, now in pairs if not before]) if asked else None,
        late=sum(said.late for line in lines for said in line.advice),
    )


def _contrasts(arms: Mapping[str, Seeds]) -> list[Contrast]:
    """Each arm over none, the full one over each other, the oracle over it."""
    pairs = [(NONE, arm) for arm in arms if arm != NONE]
    if FULL in arms:
        pairs += [(arm, FULL) for arm in arms if arm not in (NONE, FULL, ORACLE)]
        pairs += [(FULL, ORACLE)] if ORACLE in arms else []
    return [found for a, b in pairs if (found := _contrast(a, b, arms[a], arms[b])) is not None]


def _contrast(a: str, b: str, of_a: Seeds, of_b: Seeds) -> Contrast | None:
    """Over the seeds, tasks and samples that both have, so that nothing but the arm differs."""
    common: tuple[list[TrialLine], list[TrialLine]] = ([], [])
    by_seed = {}
    for seed in sorted({*of_a} & {*of_b}):
        left, right = per_key(of_a[seed]), per_key(of_b[seed])
        keys = [key for key in left if key in right]
        if keys:
            common[0].extend(left[key] for key in keys)
            common[1].extend(right[key] for key in keys)
            by_seed[seed] = statistics.fmean(_solved(right[key]) - _solved(left[key]) for key in keys)
    if not by_seed:
        return None
    k = max(len(line.episodes) for lines in common for line in lines)
    student = over_seeds(list(by_seed.values()))
    return Contrast(
        a=a,
        b=b,
        tasks=success_difference(common[0], common[1], k),
        by_seed=by_seed,
        seeds_low=student.low if student else None,
        seeds_high=student.high if student else None,
    )


def _notes(arms: Mapping[str, Seeds]) -> list[str]:
    """What isn't whole: seeds that an arm lacks, tasks that it didn't finish."""
    notes = []
    seeds = sorted({seed for of in arms.values() for seed in of})
    for arm, of in arms.items():
        missing = [seed for seed in seeds if not of.get(seed)]
        if missing:
            notes.append(f"{arm}: not played with seed {', '.join(map(str, missing))}")
        for seed, lines in of.items():
            wanted = per_key(arms[NONE].get(seed, ()))
            left_out = len(wanted.keys() - per_key(lines).keys())
            if lines and left_out:
                notes.append(f"{arm}, seed {seed}: {left_out} of {len(wanted)} trials aren't there")
    return notes


def _all(seeds: Seeds) -> list[TrialLine]:
    return [line for lines in seeds.values() for line in lines]


def _solved(line: TrialLine) -> int:
    return int(any(line.solved))


def _value(line: TrialLine) -> tuple[int, float]:
    return _solved(line), line.score or 0.0


def _abstains(line: TrialLine) -> bool:
    """No hint in any of its prompts."""
    return all(said.decision == "abstain" for said in line.advice)


def _share(of: Sequence[bool]) -> Share | None:
    return wilson(sum(of), len(of)) if of else None

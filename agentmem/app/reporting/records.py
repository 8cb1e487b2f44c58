"""`metrics.jsonl`: what was measured, a JSON line a record, its kind in `record`.

A line is written with one write and flushed, so that a crash leaves at most one torn line, at the end.
Readers leave it out and the next writer cuts it off. Shares are in [0, 1], times in seconds; what an update
counts (`trials`, `rows`, tokens) belongs to that update alone. `None` stands for "not a number": an update
without a usable gradient has no loss.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from agentmem.evaluation.domains import DomainFigures
from agentmem.failures import AgentMemError
from agentmem.jsonl import LineWriter

Condition = Literal["with_memory", "without_memory"]
CONDITIONS: tuple[Condition, ...] = ("with_memory", "without_memory")


class UpdateRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="update"):
    """One update of the learner. Counts start with 1: update n makes weight version n from n-1."""

    update: int
    version: int
    """Weight version after the update."""
    t: float
    """Seconds since the run's start, cumulative over resumes."""
    trials: int
    groups: list[str] = []
    """Groups consumed, each once in the whole file."""
    replayed_groups: int = 0
    """Groups drawn from the replay table besides (not among `trials` and `groups`)."""
    p_at_k: list[float]
    """Share of the update's trials solved within k episodes, k = 1, 2, …; empty if none was valid."""
    reward_mean: float | None = None
    staleness_mean: float | None = None
    staleness_max: int = 0
    rows: int = 0
    dropped_rows: int = 0
    """Rows left out, for their advantage is zero."""
    policy_loss: float | None = None
    entropy: float | None = None
    grad_norm: float | None = None
    lr: float = 0.0
    clip_fraction: float | None = None
    mismatch_kl: float | None = None
    """KL estimate between what the engine sampled from and the learner's own distribution."""
    ratio_mean: float | None = None
    value_loss: float | None = None
    """PPO: mean of ½ (V - target)² over act turns, in squared units of a return."""
    explained_variance: float | None = None
    """PPO: share of the value targets' variance that the values before the update explain (1: all)."""
    sampled_tokens: int = 0
    trained_tokens: int = 0
    wait_s: float = 0.0
    """Waiting for complete groups."""
    update_s: float = 0.0
    push_s: float = 0.0
    learner_idle: float = 0.0
    rollout_idle: float = 0.0
    trials_per_s: float = 0.0
    tokens_per_s: float = 0.0
    invalid_share: float = 0.0
    """Turns without a usable action."""
    reflection_tokens: int = 0
    """Part of `sampled_tokens`."""
    tip_tokens: int = 0
    """Sampled for tips since the update before, beside `sampled_tokens`: a tip ends after its trial."""
    modes: dict[str, list[int]] = {}
    """EMPO²: by the mode that trials were played in: how many (valid ones), and how many were solved."""
    intrinsic_mean: float = 0.0
    """A trial's intrinsic rewards, on average; part of `reward_mean`."""
    off_policy: dict[str, float] = {}
    """Ratio and effective sample size on and off policy, and the share of tokens that the mask took."""
    advice_tokens: int = 0
    """Mem-π: of the memory policy, part of `sampled_tokens`; the others are the agent's."""
    domains: dict[str, dict[str, float]] = {}
    """Of a mixture: by domain how many groups, valid trials and solved ones; Mem-π: solved ones among those
    with a forced hint and with none, and in how many of the choices that were asked for it would abstain."""
    advice: dict[str, float] = {}
    """Mem-π: what the update's groups and its loss say of decisions and hints (`learner.advice_method`)."""

    def __post_init__(self) -> None:
        _settle_floats(self)


class EvalRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="eval"):
    """One held-out evaluation after `update` updates (0: before training). `low`, `high`: 95 % intervals."""

    update: int
    condition: Condition
    n: int
    p_at_k: list[float]
    low: list[float]
    high: list[float]
    score: float | None = None
    wall_s: float = 0.0
    domains: dict[str, DomainFigures] = {}
    """Of a mixture: the same by domain, with abstention."""

    def __post_init__(self) -> None:
        if not len(self.p_at_k) == len(self.low) == len(self.high):
            raise ValueError(
                f"eval record: {len(self.p_at_k)} shares, {len(self.low)} lower bounds, "
                f"{len(self.high)} upper bounds: must be equally many"
            )
        _settle_floats(self)


class GapRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="gap"):
    """The memory gap after `update` updates: p@k with memory minus p@k without, k = 1, 2, …

    Paired over the `n` tasks that both conditions played; `low`, `high`: 95 % intervals of a bootstrap.
    """

    update: int
    n: int
    gap: list[float]
    low: list[float]
    high: list[float]

    def __post_init__(self) -> None:
        if not len(self.gap) == len(self.low) == len(self.high):
            raise ValueError(
                f"gap record: {len(self.gap)} gaps, {len(self.low)} lower bounds, "
                f"{len(self.high)} upper bounds: must be equally many"
            )
        _settle_floats(self)


class MaskRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="mask"):
    """Success in the second episode with a piece of the first one's memory hidden, against all of it there.

    `trials`: whose second episode was played both ways, behind the same first one. `difference` is masked
    minus remembered, paired over `tasks` tasks, with its 95 % interval and the p-value of the sign test.
    """

    mask: str
    trials: int
    tasks: int
    remembered: float
    masked: float
    difference: float
    low: float
    high: float
    p: float
    better: int
    worse: int


class DistilRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="distil"):
    """A step of Mem-π's Stage 1. Losses in nats per hint token."""

    update: int
    """Steps so far: the first is 1. 0: before training, which has a held-out loss alone."""
    epoch: int
    """Whole epochs so far."""
    loss: float | None = None
    """None: its gradient wasn't finite, and the step was skipped."""
    held_out: float | None = None
    """After the last step of an epoch."""
    lr: float = 0.0
    tokens: int = 0
    """Trained tokens of the step."""


class EventRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="event"):
    """Something that happened: a resume, a restart, a failed push."""

    t: float
    what: str
    detail: str = ""


class AdviceRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="advice"):
    """What a memory policy decided in the evaluation after `update` updates (Mem-π).

    Shares are of its own choices, late answers left out. Easy tasks are those that the agent solves without a
    hint in at least half of its trials, in the same evaluation; without such trials none is easy or hard.
    """

    update: int
    asked: int
    late: int = 0
    abstains: float | None = None
    easy: int = 0
    abstains_easy: float | None = None
    hard: int = 0
    abstains_hard: float | None = None
    p_generate: list[int] = []
    """Choices by tenths of p(generate), from [0, 0.1) to [0.9, 1]."""
    hint_tokens: float = 0.0
    """Tokens of hints a question; an abstention counts 0."""


OTHER_INSTANCES = "other instances"
"""Event of an evaluation on instances of another kind than those that its model was trained on."""
OTHER_AGENT = "other agent"
"""Event of an evaluation with another agent than the one that its memory policy was trained with."""

Record = UpdateRecord | EvalRecord | GapRecord | AdviceRecord | MaskRecord | DistilRecord | EventRecord

_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def _settle_floats(record: UpdateRecord | EvalRecord | GapRecord) -> None:
    """JSON has no NaN: a non-finite number becomes None where the field allows it, else it is an error."""
    for field in msgspec.structs.fields(record):
        value = getattr(record, field.name)
        if isinstance(value, float) and not math.isfinite(value):
            if field.default is not None:
                raise ValueError(f"{type(record).__name__}: {field.name} is {value}: must be a finite number")
            msgspec.structs.force_setattr(record, field.name, None)
        elif isinstance(value, list) and not all(math.isfinite(x) for x in value if isinstance(x, float)):
            raise ValueError(f"{type(record).__name__}: {field.name} is {value}: must be finite numbers")


class MetricsWriter(LineWriter):
    """Appends records."""

    def append(self, record: Record) -> None:
        """Write one line; it is with the operating system when this returns."""
        self.write([record])


def _lines(path: Path) -> Iterator[tuple[bytes, Record]]:
    if not path.is_file():
        return
    *lines, _torn = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            record = _decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise AgentMemError(f"{path}, line {number}: no valid record: {error}") from error
        yield line, record


def read_records(path: Path) -> list[Record]:
    """All records in order; none if the file isn't there. Raises AgentMemError naming a bad line."""
    return [record for _, record in _lines(path)]


def updates_of(records: Sequence[Record]) -> list[UpdateRecord]:
    """The update records among `records`."""
    return [r for r in records if isinstance(r, UpdateRecord)]


def p_at_k_over(updates: Sequence[UpdateRecord]) -> list[float]:
    """p@k over the trials of several updates together (the moving average of view and curve)."""
    counted = [u for u in updates if u.trials > 0 and u.p_at_k]
    trials = sum(u.trials for u in counted)
    ks = min((len(u.p_at_k) for u in counted), default=0)
    return [sum(u.p_at_k[k] * u.trials for u in counted) / trials for k in range(ks)]


def evals_of(records: Sequence[Record]) -> list[EvalRecord]:
    """The evaluations by update; of two of the same update and condition the later one counts."""
    latest = {(r.update, r.condition): r for r in records if isinstance(r, EvalRecord)}
    return [latest[key] for key in sorted(latest)]


def gaps_of(records: Sequence[Record]) -> list[GapRecord]:
    """The memory gaps by update; of two of the same update the later one counts."""
    latest = {r.update: r for r in records if isinstance(r, GapRecord)}
    return [latest[update] for update in sorted(latest)]


def distils_of(records: Sequence[Record]) -> list[DistilRecord]:
    """The steps of Stage 1; of two with one number the later one counts."""
    latest = {r.update: r for r in records if isinstance(r, DistilRecord)}
    return [latest[update] for update in sorted(latest)]


def truncate_after(path: Path, update: int) -> float:
    """Before a resume from the checkpoint of `update`: drop what will be measured again.

    Updates, evaluations and what was made of these after `update` go; events stay, since they did happen.
    Returns the seconds that the run has spent so far, lost work included: the resumed run's `t` goes on from
    there. The file is replaced as a whole, so a crash in between loses nothing. No writer may be open.
    """
    spent = 0.0
    kept: list[bytes] = []
    for line, record in _lines(path):
        if isinstance(record, UpdateRecord | EventRecord):
            spent = max(spent, record.t)
        if isinstance(record, EventRecord | MaskRecord) or record.update <= update:
            kept.append(line + b"\n")
    if path.is_file():
        part = path.with_name(path.name + ".part")
        part.write_bytes(b"".join(kept))
        os.replace(part, path)
    return spent

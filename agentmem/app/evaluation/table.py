"""What `agentmem eval` prints: success by condition and seed, how the agent behaved, what it spent."""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.app.evaluation.evaluate import Evaluated, gap_record
from agentmem.app.reporting.records import EvalRecord, MaskRecord
from agentmem.app.reporting.table import GAP_INTERVALS, INTERVALS, aligned, cell, gap_cell
from agentmem.evaluation.behaviour import fixation, repeat_failure, trajectory_entropy, unusable, worst_task
from agentmem.evaluation.budget import spent
from agentmem.evaluation.lines import TrialLine
from agentmem.evaluation.pass_at_k import Share, wilson

_MEMORY = {"with_memory": "with", "without_memory": "without"}


def memory_name(condition: str) -> str:
    """A condition in the column `memory`."""
    return _MEMORY.get(condition, condition.replace("_", " "))


def success_table(found: Sequence[tuple[int, Evaluated]]) -> str:
    """A row for each condition and seed; where there are several seeds one for all of their trials; the gap
    between the conditions."""
    records = [(seed, evaluated.record) for seed, evaluated in found]
    ks = max(len(record.p_at_k) for _, record in records)
    header = ["memory", "seed", "n", *(f"p@{k + 1}" for k in range(ks)), "score"]
    body = []
    for condition in dict.fromkeys(record.condition for _, record in records):
        own = [(str(seed), record) for seed, record in records if record.condition == condition]
        if len(own) > 1:
            own.append(("all", pooled([record for _, record in own])))
        for name, record in own:
            score = "-" if record.score is None else f"{record.score:.3f}"
            shares = (cell(record, k) for k in range(ks))
            body.append([memory_name(condition), name, str(record.n), *shares, score])
    gap = gap_record([line for _, evaluated in found for line in evaluated.lines], 0, ks)
    if gap is not None:
        body.append(["gap", "all", str(gap.n), *(gap_cell(gap, k) for k in range(ks)), "-"])
    note = f"[ ]: {INTERVALS}{'' if gap is None else GAP_INTERVALS}"
    return "\n".join([*aligned(header, body), note])


def pooled(records: Sequence[EvalRecord]) -> EvalRecord:
    """The trials of several evaluations of one condition together."""
    n = sum(record.n for record in records)
    solved = [
        sum(round(record.p_at_k[k] * record.n) for record in records) for k in range(len(records[0].p_at_k))
    ]
    shares = [wilson(count, n) for count in solved]
    scored = [record for record in records if record.score is not None]
    counted = sum(record.n for record in scored)
    return EvalRecord(
        update=0,
        condition=records[0].condition,
        n=n,
        p_at_k=[share.value for share in shares],
        low=[share.low for share in shares],
        high=[share.high for share in shares],
        score=sum((r.score or 0.0) * r.n for r in scored) / counted if counted else None,
        wall_s=sum(record.wall_s for record in records),
    )


def mask_table(records: Sequence[MaskRecord]) -> str:
    """A row for each mask: how far success in the second episode falls."""
    header = [
        "hidden",
        "tasks",
        "trials",
        "solved with it",
        "without",
        "difference",
        "better/worse",
        "sign test",
    ]
    body = [
        [
            r.mask,
            str(r.tasks),
            str(r.trials),
            f"{r.remembered:.3f}",
            f"{r.masked:.3f}",
            f"{r.difference:+.3f} [{r.low:+.3f},{r.high:+.3f}]",
            f"{r.better}/{r.worse}",
            f"p = {r.p:.2g}",
        ]
        for r in records
    ]
    note = "second episodes behind the same lost first one; [ ]: 95 % paired bootstrap over tasks"
    return "\n".join([*aligned(header, body), note])


def behaviour_table(evaluations: Sequence[Sequence[TrialLine]]) -> str:
    """A row for each condition, all seeds together. Columns about which nothing can be said are left out."""
    arms: dict[str, list[TrialLine]] = {}
    for lines in evaluations:
        for line in lines:
            arms.setdefault(line.condition, []).append(line)
    rows = [{"memory": memory_name(condition), **behaviour(lines)} for condition, lines in arms.items()]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    body = [[row.get(name, "-") for name in columns] for row in rows]
    notes = "tokens, turns and seconds: mean of a trial; entropy in nats"
    return "\n".join([*aligned(columns, body), notes])


def behaviour(lines: Sequence[TrialLine]) -> dict[str, str]:
    """Column -> text, for one arm."""
    k = max(len(line.episodes) for line in lines)
    row: dict[str, str] = {}
    if (share := repeat_failure(lines)) is not None:
        row["same failure again"] = _share(share)
    if (share := fixation(lines)) is not None:
        row["same action again"] = _share(share)
    if (share := unusable(lines)) is not None and share.value > 0:
        row["unusable"] = f"{share.value:.3f}"
    if (found := trajectory_entropy(lines)) is not None:
        row["entropy"] = f"{found.value:.2f} ({found.tasks} x {found.trials:g})"
    if (worst := worst_task(lines, k)) is not None:
        shared = f" ({worst.shared_by} of {worst.tasks} tasks)"
        row[f"worst p@{k}"] = f"{worst.value:.2f}{shared if worst.shared_by > 1 else f', {worst.instance}'}"
    total = spent(lines)
    row["turns"] = f"{total.turns / total.trials:.1f}"
    for kind, count in total.tokens.items():
        row[f"{kind} tokens"] = f"{count / total.trials:.1f}"
    row["prompt tokens"] = f"{total.prompt_tokens / total.trials:.0f}"
    row["wall s"] = f"{total.wall_s / total.trials:.2f}"
    return row


def _share(share: Share) -> str:
    return f"{share.value:.3f} (n {share.n})"

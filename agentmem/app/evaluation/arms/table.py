"""What arms gave, as text, as Markdown, and as JSON."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from agentmem.app.evaluation.comparison_text import p_text
from agentmem.app.reporting.table import aligned
from agentmem.evaluation.arms import NONE, ORACLE, OUTCOMES, ArmsReport, Contrast, Decisions
from agentmem.evaluation.pass_at_k import Share

_UPPER_BOUND = f"{ORACLE} (upper bound)"


@dataclass(frozen=True, slots=True)
class Table:
    """A title, a table, and what its brackets mean."""

    title: str
    header: list[str]
    body: list[list[str]]
    note: str = ""


def as_json(report: ArmsReport) -> str:
    """The whole report, indented."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


def as_text(report: ArmsReport) -> str:
    """Tables of plain text."""
    parts = [
        "\n".join([t.title, "", *aligned(t.header, t.body), *filter(None, [t.note])]) for t in tables(report)
    ]
    return "\n\n".join([*parts, *(f"note: {note}" for note in report.notes)])


def as_markdown(report: ArmsReport) -> str:
    """The same as Markdown, for a document."""
    parts = []
    for table in tables(report):
        rows = [table.header, ["---"] * len(table.header), *table.body]
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        parts.append("\n".join([f"**{table.title}**", "", *lines, *(["", table.note] if table.note else [])]))
    return "\n\n".join([*parts, *(f"Note: {note}." for note in report.notes)])


def tables(report: ArmsReport) -> list[Table]:
    """All that have something to say."""
    found = [_success(report), _advice(report), _contrasts(report), _decisions(report)]
    return [table for table in found if table.body]


def _success(report: ArmsReport) -> Table:
    scored = any(row.score is not None for row in report.rows)
    several = len(report.seeds) > 1
    header = ["arm", "trials", "success", *(["± std"] * several)]
    header += [f"seed {seed}" for seed in report.seeds] * several + ["score"] * scored
    body = [
        [
            _name(row.arm),
            str(row.trials),
            f"{row.mean:.3f}",
            *(["-" if row.std is None else f"{row.std:.3f}"] * several),
            *([_number(row.by_seed.get(seed)) for seed in report.seeds] if several else []),
            *([_number(row.score)] * scored),
        ]
        for row in report.rows
    ]
    what = f"{report.tasks} held-out tasks, of which the agent alone solves {report.easy}"
    note = "mean and standard deviation over seeds of the share of tasks solved" if several else ""
    return Table(f"Success on {what}", header, body, note)


def _advice(report: ArmsReport) -> Table:
    header = ["arm", "hint tokens", "abstains", "on easy tasks", "on hard tasks", "lost", "won"]
    late = any(row.late for row in report.rows)
    body = [
        [
            _name(row.arm),
            f"{row.hint_tokens:.2f}",
            *map(_share, (row.abstained, row.abstained_easy, row.abstained_hard)),
            *map(_count, (row.lost, row.won)),
            *([str(row.late)] * late),
        ]
        for row in report.rows
        if row.arm != NONE
    ]
    note = (
        "hint tokens: mean of a trial, 0 for an abstention; easy: the agent alone solves the task in at "
        "least half of its trials; lost (negative transfer): of the trials that the agent alone solves, won: "
        "of those that it loses; [ ]: 95 % Wilson intervals, which take trials as independent"
    )
    return Table("What was injected, and what it cost", header + ["late"] * late, body, note)


def _contrasts(report: ArmsReport) -> Table:
    several = len(report.seeds) > 1
    header = ["difference", "tasks", "by task", "better/worse", "sign test"]
    header += [*(f"seed {seed}" for seed in report.seeds), "over seeds"] * several
    body = []
    for c in report.contrasts:
        d = c.tasks
        row = [f"{c.b} - {c.a}", str(d.tasks), f"{d.value:+.3f} [{d.low:+.3f},{d.high:+.3f}]"]
        row += [f"{d.wins}/{d.losses}", p_text(d.p)]
        if several:
            row += [f"{c.by_seed[s]:+.3f}" if s in c.by_seed else "-" for s in report.seeds]
            row.append(_over_seeds(c))
        body.append(row)
    note = "by task: 95 % paired bootstrap over tasks, seeds averaged; better/worse: tasks"
    note += "; over seeds: Student's 95 % interval" * several
    return Table("Differences in success", header, body, note)


def _decisions(report: ArmsReport) -> Table:
    header = ["arm", "judged by", "a hint", "trials", "generates", "abstains", "right"]
    body = [_decision_row(d, outcome) for d in report.decisions for outcome in OUTCOMES]
    note = (
        "judged by the arm that gives a hint always, against none: helps (only with it solved), hurts (only "
        "without); right: generates where it helps, abstains where it hurts"
    )
    return Table("Decisions", header, body, note)


def _decision_row(d: Decisions, outcome: str) -> list[str]:
    generates, abstains = d.generate[outcome], d.abstain[outcome]
    n = generates + abstains
    right = {"helps": generates, "hurts": abstains}.get(outcome)
    shown = "changes nothing" if outcome == "equal" else outcome
    share = "-" if right is None or not n else f"{right / n:.3f}"
    return [d.arm, d.judged_by, shown, str(n), str(generates), str(abstains), share]


def _over_seeds(contrast: Contrast) -> str:
    if contrast.seeds_low is None or contrast.seeds_high is None:
        return "-"
    return f"[{contrast.seeds_low:+.3f},{contrast.seeds_high:+.3f}]"


def _name(arm: str) -> str:
    return _UPPER_BOUND if arm == ORACLE else arm


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _share(share: Share | None) -> str:
    return "-" if share is None else f"{share.value:.3f} [{share.low:.3f}-{share.high:.3f}]"


def _count(share: Share | None) -> str:
    return "-" if share is None else f"{round(share.value * share.n)} of {share.n} ({share.value:.3f})"

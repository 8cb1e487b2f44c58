"""The table of held-out success before and after training, with and without memory, and the gap between them.

A cell is the share of instances solved within k episodes with its 95 % binomial interval. The first
evaluation of a condition is *before*, its last one *after*; a condition evaluated once has one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentmem.app.reporting.records import (
    CONDITIONS,
    Condition,
    EvalRecord,
    GapRecord,
    Record,
    evals_of,
    gaps_of,
)

if TYPE_CHECKING:
    from rich.table import Table

INTERVALS = "95 % binomial intervals (Wilson); n held-out instances"
GAP_INTERVALS = "; gap: with minus without, paired by instance (bootstrap)"
_MEMORY = {"with_memory": "with", "without_memory": "without"}


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """First and last evaluation of one condition; `after` is None until a second one was made."""

    before: EvalRecord
    after: EvalRecord | None


def before_and_after(records: Sequence[Record]) -> dict[Condition, BeforeAfter]:
    """Condition -> its first and last evaluation. Conditions without any are left out."""
    evals = evals_of(records)
    found: dict[Condition, BeforeAfter] = {}
    for condition in CONDITIONS:
        own = [e for e in evals if e.condition == condition]
        if own:
            found[condition] = BeforeAfter(own[0], own[-1] if len(own) > 1 else None)
    return found


def rows(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """Header and rows as text. No rows without an evaluation."""
    pairs = before_and_after(records)
    evals = [e for pair in pairs.values() for e in (pair.before, pair.after) if e is not None]
    ks = max((len(e.p_at_k) for e in evals), default=0)
    scored = any(e.score is not None for e in evals)
    header = ["memory", "training", "n", *(f"p@{k + 1}" for k in range(ks)), *(["score"] * scored)]
    out = []
    for condition, pair in pairs.items():
        for when, record in (("before", pair.before), ("after", pair.after)):
            if record is None:
                continue
            when = when if pair.after is not None else f"{record.update} updates"
            cells = [cell(record, k) for k in range(ks)]
            score = [] if not scored else ["-" if record.score is None else f"{record.score:.3f}"]
            out.append([_MEMORY[condition], when, str(record.n), *cells, *score])
    gaps = gaps_of(records)
    for gap in (gaps[0], gaps[-1]) if len(gaps) > 1 else gaps:
        when = f"{gap.update} updates" if len(gaps) == 1 else "before" if gap is gaps[0] else "after"
        out.append(["gap", when, str(gap.n), *(gap_cell(gap, k) for k in range(ks)), *(["-"] * scored)])
    return header, out


def gap_cell(record: GapRecord, k: int) -> str:
    """The memory gap at p@(k+1) with its interval."""
    if k >= len(record.gap):
        return "-"
    return f"{record.gap[k]:+.3f} [{record.low[k]:+.3f},{record.high[k]:+.3f}]"


def legend(records: Sequence[Record]) -> str:
    """What the brackets mean."""
    return f"[ ]: {INTERVALS}{GAP_INTERVALS if gaps_of(records) else ''}"


def cell(record: EvalRecord, k: int) -> str:
    """p@(k+1) with its interval."""
    if k >= len(record.p_at_k):
        return "-"
    return f"{record.p_at_k[k]:.3f} [{record.low[k]:.3f}-{record.high[k]:.3f}]"


def plain_table(records: Sequence[Record]) -> str:
    """The table in ASCII, columns aligned; one line that says so where there is no evaluation."""
    header, body = rows(records)
    if not body:
        return "no held-out evaluation was made (evaluation.tasks is 0, or the run ended before it)"
    return "\n".join([*aligned(header, body), legend(records)])


def aligned(header: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in ASCII, with a rule under its header."""
    widths = [max(len(row[i]) for row in (header, *body)) for i in range(len(header))]
    lines = ["  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)) for row in (header, *body)]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return [line.rstrip() for line in lines]


def rich_table(records: Sequence[Record]) -> Table:
    """The table for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    header, body = rows(records)
    table = Table(box=box.SIMPLE_HEAD, caption=Text(legend(records)), caption_justify="left")
    for name in header:
        table.add_column(name)
    for n, row in enumerate(body):
        last_of_condition = n + 1 == len(body) or body[n + 1][0] != row[0]
        style = "bold" if row[1] == "after" else ""
        table.add_row(*(Text(text) for text in row), style=style, end_section=last_of_condition)
    return table

"""From the recorded matrix to its page in the documentation.

python -m tests.chaos.document        writes docs/chaos.md
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.chaos.cells import matrix

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "chaos.json"
PAGE = ROOT / "docs" / "chaos.md"

_TEXT = """\
# Chaos matrix

Every cell: the victim is taken at that moment (it is held there and its state is checked), then killed,
frozen, or slowed down tenfold. Shown are the seconds until the run trains on, the accounting identity holds
and no process is left over. {verdict} `make chaos` runs the matrix and writes this page; the rows of
`benchmarks/results/chaos.json` name the commit that each was run with ({commits}).

Small runs on two cores that other work used, too, with the PyTorch engine, and with vLLM where the engine
is the victim; `supervision.ping_timeout_s: 6` (default 20), so a frozen part is found after about that
time. A killed driver's time includes starting `--resume`; a frozen driver is continued after 10 s, and the
time counts from there.
"""


def document(rows: Sequence[dict[str, Any]]) -> str:
    """The page. A cell that doesn't hold shows why."""
    found = {(r["victim"], r["moment"], r["signal"]): r for r in rows}
    cells = matrix()
    missing = [cell for cell in cells if (cell.victim, cell.moment, cell.signal) not in found]
    broken = [r for r in rows if not r["held"]]
    lost = sum(r["lost"] or 0 for r in rows)
    doubled = sum(r["duplicated"] or 0 for r in rows)
    held = len(rows) - len(broken)
    verdict = f"Of {len(cells)} cells {held} hold, with {lost} trials lost and {doubled} doubled."
    if missing:
        verdict += f" {len(missing)} haven't been run."
    commits = ", ".join(sorted({r["commit"] for r in rows}))
    parts = [_wrapped(_TEXT.format(verdict=verdict, commits=commits))]
    moments = list(dict.fromkeys(cell.moment for cell in cells))
    for signal in dict.fromkeys(cell.signal for cell in cells):
        parts.append(f"## {signal}\n")
        table = [f"| victim | {' | '.join(moments)} |", "|---" * (len(moments) + 1) + "|"]
        for victim in dict.fromkeys(cell.victim for cell in cells):
            shown = [_shown(found.get((victim, moment, signal))) for moment in moments]
            table.append(f"| {victim} | {' | '.join(shown)} |")
        parts.append("\n".join(table) + "\n")
    if broken:
        parts.append("## Cells that don't hold\n")
        parts.append(
            "\n".join(f"- {r['victim']}, {r['moment']}, {r['signal']}: {r['reason']}" for r in broken) + "\n"
        )
    return "\n".join(parts)


def _wrapped(text: str) -> str:
    """Paragraphs in lines of at most 118 characters."""
    return (
        "\n\n".join(
            textwrap.fill(" ".join(paragraph.split()), 118, break_on_hyphens=False, break_long_words=False)
            for paragraph in text.split("\n\n")
        )
        + "\n"
    )


def _shown(row: dict[str, Any] | None) -> str:
    if row is None:
        return "not run"
    return f"{row['recovery_s']:.1f} s" if row["held"] else "**doesn't hold**"


if __name__ == "__main__":
    PAGE.write_text(document(json.loads(RESULTS.read_text())))

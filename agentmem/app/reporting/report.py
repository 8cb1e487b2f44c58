"""What a run says at its end: the table of success before and after, the curve, where the files are."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.app.reporting.curve import draw_curve
from agentmem.app.reporting.domain_table import run_domains
from agentmem.app.reporting.mode_table import mode_table
from agentmem.app.reporting.records import read_records
from agentmem.app.reporting.rundir import RunDir
from agentmem.app.reporting.table import plain_table, rich_table

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class Report:
    """The plain text of the report and the files of the run that exist, by what they are."""

    text: str
    files: dict[str, Path] = field(default_factory=dict)
    missing: str = ""
    """Why there is no curve, if there is none."""


def write_report(run: RunDir, console: Console | None = None) -> Report:
    """Draw the curve and print the report (drawn in a terminal, plain elsewhere; no console: print nothing).

    Works for a run that was interrupted, too: it reports what was measured.
    """
    records = read_records(run.metrics_path)
    missing = ""
    try:
        draw_curve(records, run.curve_path, title=run.name)
    except ImportError:
        missing = "no curve: matplotlib isn't installed (pip install 'agentmem[train]')"
    files = existing_files(run)
    where = "\n".join(_where(run, files, missing))
    table = plain_table(records)
    further = [text for text in (mode_table(records), run_domains(records)) if text]
    if console is not None:
        if console.is_terminal and records:
            console.print(rich_table(records))
        else:
            console.print(table, markup=False, highlight=False, soft_wrap=True)
        for text in further:
            console.print(f"\n{text}", markup=False, highlight=False, soft_wrap=True)
        console.print(where, markup=False, highlight=False, soft_wrap=True)
    texts = [text for text in (table, *further, where) if text]
    return Report(text="\n\n".join(texts) + "\n", files=files, missing=missing)


def existing_files(run: RunDir) -> dict[str, Path]:
    """What of a run's files is there, by what it is."""
    members = {
        "final model": run.final_model,
        "learning curve": run.curve_path,
        "metrics": run.metrics_path,
        "evaluation trials": run.trials_path,
        "configuration": run.config_path,
        "example trials": run.examples_text,
        "checkpoints": run.checkpoints,
    }
    return {
        what: path
        for what, path in members.items()
        if path.is_file() or (path.is_dir() and any(path.iterdir()))
    }


def _where(run: RunDir, files: dict[str, Path], missing: str) -> list[str]:
    width = max((len(what) for what in files), default=0)
    lines = [f"run {run.path}"]
    lines += [f"  {what.ljust(width)}  {path.relative_to(run.path)}" for what, path in files.items()]
    if run.examples.is_file():
        lines.append(f"  a trial to read: agentmem show {run.name}")
    if missing:
        lines.append(f"  {missing}")
    return lines

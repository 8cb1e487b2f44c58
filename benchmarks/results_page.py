"""docs/results.md shows what commands print from recorded results: each block that starts with `$ … --table`.

python -m benchmarks.results_page        writes the blocks anew from benchmarks/results

The text around the blocks is written by hand; look at it again when a block changes.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from agentmem.app.reporting.learning_log import read_lines
from agentmem.app.sweeps.plan import load_sweep
from agentmem.app.sweeps.table import sweep_tables
from benchmarks import wall_time

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results.md"
_BLOCK = re.compile(r"^```console\n\$ (?P<command>[^\n]* --table)\n(?P<shown>.*?)^```$", re.S | re.M)


def commands(text: str) -> list[str]:
    """The commands whose output a page shows."""
    return [match["command"] for match in _BLOCK.finditer(text)]


def filled(text: str) -> str:
    """The page with every block as its command prints it now."""
    return _BLOCK.sub(lambda m: f"```console\n$ {m['command']}\n{_printed(m['command'])}\n```", text)


def _printed(command: str) -> str:
    match shlex.split(command):
        case ["agentmem", "compare", "--sweep", sweep, "--table"]:
            return sweep_tables(load_sweep(ROOT / sweep), read_lines())
        case ["python", "-m", "benchmarks.wall_time", "--table"]:
            return wall_time.shown(json.loads(wall_time.RESULTS.read_text()))
    raise ValueError(f"{command}: not known here")


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

"""`python -m tests.chaos`: run the matrix (or what of it is missing), and write down what it shows.

Cells that were run with the present code are skipped unless `--again`. After a cell that doesn't hold, the
run is ended and the next cell gets a fresh one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.chaos.attack import attack
from tests.chaos.cells import Cell, matrix
from tests.chaos.cluster import Cluster
from tests.chaos.document import PAGE, RESULTS, ROOT, document

CODE = ("agentmem", "actors", "learner", "envs", "tests/chaos")


def main(arguments: Sequence[str] | None = None) -> int:
    """The number of cells that don't hold, of those run now."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--again", action="store_true", help="run cells that were run with this code, too")
    parser.add_argument(
        "--only", default="", help="cells whose name holds this text, e.g. 'engine, mid-turn'"
    )
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no further cell after so long")
    chosen = parser.parse_args(arguments)
    commit, code = _git("rev-parse", "--short", "HEAD"), _code()
    known = {_key(row): row for row in _read()}
    cells = [cell for cell in matrix() if chosen.only in str(cell)]
    if not chosen.again:
        cells = [c for c in cells if known.get(_key(_row(c)), {}).get("code") != code]
    cells.sort(key=lambda cell: _key(_row(cell)) in known)  # what was never run comes first
    begun, broken = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="agentmem-chaos-") as folder:
        live = _Live(Path(folder))
        try:
            for number, cell in enumerate(cells):
                if time.monotonic() - begun > 60 * chosen.minutes:
                    print(f"{len(cells) - number} cells are left for another time")
                    break
                row = {**_row(cell), "commit": commit, "code": code, **live.attack(cell)}
                broken += not row["held"]
                known[_key(row)] = row
                _write(list(known.values()))
                told = row.get("reason") or row["recovery_s"]
                print(f"[{number + 1}/{len(cells)}] {cell}: {told}", flush=True)
        finally:
            live.close()
    return broken


class _Live:
    """A live run for one cell after another; a fresh one after a cell that doesn't hold."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._cluster: Cluster | None = None

    def attack(self, cell: Cell) -> dict[str, Any]:
        """What the cell showed."""
        try:
            if self._cluster is not None and self._cluster.engine != cell.engine:
                self.close()
            if self._cluster is None:
                self._count += 1
                self._cluster = Cluster(self._folder / str(self._count), cell.engine)
                self._cluster.start()
            result = attack(self._cluster, cell)
        except Exception as error:  # a cell that doesn't hold is a result
            self.close()
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:500]
            return {"held": False, "lost": None, "duplicated": None, "recovery_s": None, "reason": reason}
        return {
            "held": True,
            "lost": result.account.lost,
            "duplicated": result.account.duplicated,
            "recovery_s": round(result.recovery_s, 2),
        }

    def close(self) -> None:
        """End the run."""
        if self._cluster is not None:
            self._cluster.close()
        self._cluster = None


def _row(cell: Cell) -> dict[str, Any]:
    return {"victim": cell.victim, "moment": cell.moment, "signal": cell.signal}


def _key(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["victim"], row["moment"], row["signal"]


def _read() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.is_file() else []
    return rows


def _write(rows: list[dict[str, Any]]) -> None:
    order = {_key(_row(cell)): place for place, cell in enumerate(matrix())}
    rows.sort(key=lambda row: order.get(_key(row), len(order)))
    lines = ",\n".join(" " + json.dumps(row) for row in rows)
    part = RESULTS.with_suffix(".part")
    part.write_text(f"[\n{lines}\n]\n")
    os.replace(part, RESULTS)
    PAGE.write_text(document(rows))


def _code() -> str:
    """Names the code that is tested: the same after commits that change other things."""
    trees = [_git("rev-parse", f"HEAD:{path}")[:6] for path in CODE]
    return "-".join(trees)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main() > 0)

"""What sequential episodes cost: LaMer's wall time against single-episode training's, per trajectory.

    python -m benchmarks.wall_time [--updates 40] [--rounds 2] [--set KEY=VALUE …] [--save | --table]

LaMer (8 trials of up to 3 episodes a group) and the single-episode baseline (24 trials of one) are run in
turns, A B A B, each `--updates` updates without evaluation. Wall time is from the end of the first tenth of
the updates to the end of the last, so neither start nor filling the pipeline counts. Two ratios come out:

- per update: equal trajectories as the paper counts them, 24 a group, whether they were played or not;
- per episode that was played: LaMer's trials end with their success, so they play fewer than 24.

`--save` writes `benchmarks/results/wall_time.json`, with the machine's load before each run; `--table` prints
what it holds and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentmem.app.reporting.learning_log import episodes_of
from agentmem.app.reporting.records import read_records, updates_of
from agentmem.app.reporting.table import aligned

RESULTS = Path(__file__).parent / "results" / "wall_time.json"
ARMS = {"lamer": "lamer-minesweeper", "single": "gigpo-minesweeper"}
Row = dict[str, Any]


def measure(arm: str, updates: int, overrides: Sequence[str]) -> Row:
    """One run of an arm, and what its updates after the first tenth took."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="agentmem-wall-") as runs:
        settings = [f"learner.updates={updates}", "evaluation.tasks=0", *overrides]
        subprocess.run(
            [sys.executable, "-m", "agentmem", "run", ARMS[arm]]
            + [part for setting in settings for part in ("--set", setting)],
            env={**os.environ, "AGENTMEM_RUNS": runs},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        (metrics,) = Path(runs).glob("*/metrics.jsonl")
        records = updates_of(read_records(metrics))
    first, counted = records[updates // 10 - 1], records[updates // 10 :]
    wall = counted[-1].t - first.t
    episodes = sum(map(episodes_of, counted))
    return {
        "arm": arm,
        "load_before": round(load, 1),
        "updates": len(counted),
        "episodes": episodes,
        "tokens": sum(u.sampled_tokens for u in counted),
        "wall_s": round(wall, 2),
        "ms_per_update": round(1000 * wall / len(counted), 1),
        "ms_per_episode": round(1000 * wall / episodes, 3),
        "learner_idle": round(statistics.fmean(u.learner_idle for u in counted), 3),
    }


def ratios(rows: Sequence[Row]) -> dict[str, list[float]]:
    """LaMer's over the baseline's, of each neighbouring pair."""
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    return {key: [round(a[key] / b[key], 3) for a, b in pairs] for key in ("ms_per_update", "ms_per_episode")}


def shown(measured: dict[str, Any]) -> str:
    """The runs as a table, and the ratios."""
    rows = measured["rows"]
    lines = aligned(list(rows[0]), [[str(value) for value in row.values()] for row in rows])
    for key, values in measured["ratios"].items():
        lines.append(f"LaMer : single episodes, {key}: {', '.join(map(str, values))}")
    return "\n".join([f"with {' '.join(measured['overrides']) or 'the recipes as they are'}", "", *lines])


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.updates < 20 or given.rounds < 1:
        parser.error("at least 20 updates and 1 round")
    if given.table:
        print(shown(json.loads(RESULTS.read_text())))
        return
    rows = []
    for _ in range(given.rounds):
        for arm in ARMS:
            rows.append(measure(arm, given.updates, given.overrides))
            print(rows[-1], flush=True)
    measured = {"overrides": given.overrides, "rows": rows, "ratios": ratios(rows)}
    print(shown(measured))
    if given.save:
        RESULTS.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()

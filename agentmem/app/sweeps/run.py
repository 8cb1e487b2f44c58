"""`agentmem compare --sweep FILE`: a sweep's runs, one after the other, and tables of what is recorded.

- Each run is an `agentmem run … --record` in a process of its own. What is recorded already is not run again,
  so an interrupted sweep goes on where it stopped (a run under way starts anew).
- A run that fails is reported with its last lines, and the others are run all the same; the exit status is 1.
- The first Ctrl-C (or SIGTERM) ends the run under way cleanly, and with it the sweep: exit status 130.

A run's output goes to `sweep-logs/` beside the runs' directories.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentmem.app.live.interrupt import INTERRUPTED_EXIT, InterruptFlag
from agentmem.app.reporting.learning_log import LearningLine, default_path, read_lines
from agentmem.app.reporting.rundir import runs_base
from agentmem.app.sweeps.plan import Planned, Sweep, by_key, check_runs, load_sweep
from agentmem.app.sweeps.table import sweep_tables
from agentmem.failures import AgentMemError, ConfigError

LAST_LINES = 12
"""Of a failed run's output that are shown."""
POLL_S = 0.2
LONGEST_ENDING_S = 60.0
"""How long a run that was asked to end may take before it is killed."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run's process ended."""

    status: int
    log: Path
    wall_s: float


def run_sweep(path: Path, *, results: Path | None = None, table_only: bool = False, say: Say = print) -> None:
    """Run what is missing of a sweep, then print its tables. `results`: the file of recorded lines.

    Raises ConfigError for a sweep that can't run, AgentMemError if a run failed, SystemExit(130) after a
    Ctrl-C.
    """
    sweep = load_sweep(path)
    results = default_path() if results is None else results
    if table_only:
        say(sweep_tables(sweep, read_lines(results)))
        return
    check_runs(sweep, path)
    with InterruptFlag() as flag:
        failed = _run_missing(sweep, path, results, flag, say)
    if failed is None:
        say(f"Interrupted. Go on with: agentmem compare --sweep {path}")
        raise SystemExit(INTERRUPTED_EXIT)
    say(sweep_tables(sweep, read_lines(results)))
    if failed:
        raise AgentMemError(f"sweep {path}: {len(failed)} of its runs failed: {'; '.join(map(str, failed))}")


def _run_missing(
    sweep: Sweep, path: Path, results: Path, flag: InterruptFlag, say: Say
) -> list[Planned] | None:
    """The runs that failed; None if the sweep was interrupted."""
    planned = sweep.runs()
    recorded = by_key(read_lines(results))
    done = sum(run.key in recorded for run in planned)
    say(f"{path}: {len(planned)} runs, {done} recorded in {results}")
    failed: list[Planned] = []
    for number, run in enumerate(planned, start=1):
        if run.key in by_key(read_lines(results)):
            continue  # also what another sweep has recorded in the meantime
        say(f"[{number}/{len(planned)}] {run}: {run.recipe} {' '.join(run.overrides)}")
        ended = _run(run, path.stem, results, flag)
        line = by_key(read_lines(results)).get(run.key)
        if ended.status == 0 and line is not None:
            say(f"  {_outcome(line)}; {ended.wall_s:.0f} s with all set-up")
        elif not flag.requested:
            failed.append(run)
            why = (
                f"failed with exit status {ended.status}" if ended.status else "ended without being recorded"
            )
            say("\n".join([f"  {why}; the end of {ended.log}:", *_indented(_tail(ended.log))]))
        if flag.requested:
            return None
    return failed


def command(run: Planned, results: Path) -> list[str]:
    """The command line of one run."""
    overrides = [part for override in run.overrides for part in ("--set", override)]
    record = ["--record", "--results", str(results), "--arm", run.arm, "--notes", run.notes]
    return [sys.executable, "-m", "agentmem", "run", run.recipe, *overrides, *record]


def _run(run: Planned, sweep: str, results: Path, flag: InterruptFlag) -> Ended:
    """Run it to its end; asked to end, it gets as long as a run needs to put itself away."""
    logs = runs_base() / "sweep-logs"
    try:
        logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"logs go to {logs} (AGENTMEM_RUNS): can't write there: {error.strerror}"
        ) from error
    log, began, told = logs / f"{sweep}-{run.arm}-{run.seed}.log", time.monotonic(), False
    with log.open("wb") as out:
        # In a session of its own: a terminal's Ctrl-C comes to the sweep alone, which hands it on once.
        process = subprocess.Popen(
            command(run, results), stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            while (status := _waited(process)) is None:
                if flag.requested and not told:
                    process.send_signal(signal.SIGINT)
                    told = True
                if flag.seconds_since() > LONGEST_ENDING_S:
                    break
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return Ended(process.returncode if status is None else status, log, time.monotonic() - began)


def _waited(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(POLL_S)
    except subprocess.TimeoutExpired:
        return None


def _outcome(line: LearningLine) -> str:
    shares = [
        f"{condition.replace('_', ' ')} {'/'.join(f'{p:.3f}' for p in measured.p_at_k)}"
        for condition, measured in line.after.items()
    ]
    return f"p@k {', '.join(shares)}; {line.updates} updates in {line.wall_s:.0f} s"


def _tail(log: Path) -> list[str]:
    with log.open(encoding="utf-8", errors="replace") as file:
        return [line.rstrip() for line in deque(file, maxlen=LAST_LINES)]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]

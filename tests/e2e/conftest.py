"""The fixture that starts runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.runs import Run


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Start `agentmem run RECIPE` with overrides; whatever is left of it is ended after the test."""
    begun: list[Run] = []

    def start_run(
        recipe: str, *overrides: str, resume: str | None = None, extra: tuple[str, ...] = ()
    ) -> Run:
        runs = tmp_path / "runs"
        runs.mkdir(exist_ok=True)
        log = tmp_path / f"log-{len(begun)}.txt"
        arguments = [sys.executable, "-m", "agentmem", "run", recipe, *extra]
        arguments += [part for override in overrides for part in ("--set", override)]
        arguments += ["--resume", resume] if resume else []
        with log.open("w") as out:
            process = subprocess.Popen(
                arguments,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, "AGENTMEM_RUNS": str(runs)},
                start_new_session=True,
            )
        run = Run(process, runs, log)
        begun.append(run)
        return run

    yield start_run
    for run in begun:
        if run.process.poll() is None:
            left = psutil.Process(run.process.pid).children(recursive=True)
            run.process.send_signal(signal.SIGKILL)
            run.process.wait(30)
            for child in left:
                try:
                    child.kill()
                except psutil.NoSuchProcess:
                    continue

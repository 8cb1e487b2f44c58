"""A real Ray cluster of several nodes on this machine, with ports and a directory of its own.

Nodes are ended by their process ids, never by `ray stop`, which would end every Ray process of the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

START_S = 240.0
ROOT = Path(__file__).resolve().parents[1]


def free_port() -> int:
    """Nobody listens there now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def until(condition: Callable[[], Any], seconds: float, what: str, every_s: float = 0.5) -> Any:
    """What the condition returns once it is true; SystemExit if it isn't within the time."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise SystemExit(f"not within {seconds:g} s: {what}")
        time.sleep(every_s)
    return found


class Nodes:
    """Context manager. `head` and `more`: custom resources and CPUs of the nodes."""

    def __init__(self, head: dict[str, int], *more: dict[str, int], report_ms: int = 2000) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="am-nodes-"))
        self._wanted, self._report_ms = (head, *more), report_ms
        self.port, self.dashboard = free_port(), free_port()
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        """Of the Jobs API."""
        return f"http://127.0.0.1:{self.dashboard}"

    @property
    def discovery(self) -> Path:
        """Ray's file of what Prometheus is to scrape."""
        return self.folder / "prom_metrics_service_discovery.json"

    def __enter__(self) -> Self:
        try:
            for offers in self._wanted:
                self.add(offers)
            until(lambda: self.alive() == len(self._wanted), START_S, "the nodes aren't there")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    def add(self, offers: dict[str, int]) -> None:
        """Start one more node, which will be there some seconds later."""
        number = len(self.processes)
        custom = {name: amount for name, amount in offers.items() if name != "CPU"}
        ray = str(Path(sys.executable).parent / "ray")
        words = [ray, "start", "--block", "--disable-usage-stats", f"--num-cpus={offers['CPU']}"]
        words += [f"--resources={json.dumps(custom)}", "--object-store-memory=150000000"]
        words += [f"--metrics-export-port={free_port()}", f"--dashboard-agent-listen-port={free_port()}"]
        if number == 0:
            words += ["--head", f"--port={self.port}", f"--dashboard-port={self.dashboard}"]
            words += ["--dashboard-host=127.0.0.1", f"--temp-dir={self.folder}"]
        else:
            words += [f"--address={self.gcs}"]
        environment = {
            **os.environ,
            # The job's `python` is that of this path.
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RAY_AUTH_MODE": "disabled",
            "RAY_metrics_report_interval_ms": str(self._report_ms),
            "OMP_NUM_THREADS": "1",
        }
        environment.pop("RAY_ADDRESS", None)
        with (self.folder / f"node-{number}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(words, stdout=log, stderr=log, env=environment, start_new_session=True)
            )
        if number == 0:
            until(self._answers, START_S, f"Ray's head doesn't answer; see {self.folder}/node-0.log")

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.dashboard), timeout=1).close()
        except OSError:
            return False
        return True

    @property
    def gcs(self) -> str:
        """What RAY_ADDRESS names."""
        return f"{socket.gethostbyname(socket.gethostname())}:{self.port}"

    def alive(self) -> int:
        """Nodes that are there."""
        from ray.util.state import list_nodes

        with contextlib.suppress(Exception):  # it answers late, and by errors of all kinds
            return sum(n.state == "ALIVE" for n in list_nodes(address=self.address))
        return 0

    def client(self) -> Any:
        """Of the Jobs API."""
        from ray.job_submission import JobSubmissionClient

        return JobSubmissionClient(self.address)

    def submit(self, entrypoint: str, environment: dict[str, str]) -> str:
        """A job; early refusals are tried again. Nodes have the code, as in an image: those of one machine
        share the directory of uploaded code, and the first one that is done with it deletes it."""
        environment = {"OMP_NUM_THREADS": "1", "RAY_JOB_STOP_WAIT_TIME_S": "60", **environment}
        runtime = {"env_vars": environment}

        def attempt() -> str:
            with contextlib.suppress(
                RuntimeError
            ):  # "No available agent to submit job" right after the start
                return str(self.client().submit_job(entrypoint=entrypoint, runtime_env=runtime))
            return ""

        return str(until(attempt, START_S, "the job isn't accepted"))

    def family(self, chosen: Callable[[str], bool]) -> list[psutil.Process]:
        """Processes of the nodes by their command lines."""
        found = []
        for node in self.processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in psutil.Process(node.pid).children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        if chosen(" ".join(process.cmdline())):
                            found.append(process)
        return found

    def kill(self, number: int) -> list[str]:
        """SIGKILL to all of a node, as when its machine loses power. Returns the classes of its actors."""
        family = [psutil.Process(self.processes[number].pid)]
        family += family[0].children(recursive=True)
        names = [" ".join(p.cmdline()).strip() for p in family]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        own = ("DashboardAgent", "RuntimeEnvAgent", "IDLE")
        actors = [name.removeprefix("ray::").split(".")[0] for name in names if name.startswith("ray::")]
        return sorted(name for name in actors if name not in own)

    def close(self) -> None:
        """End what is left."""
        for process in self.processes[::-1]:
            if process.poll() is None:
                left = psutil.Process(process.pid).children(recursive=True)
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
                for child in [*left, process]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        child.kill()
                process.wait(20)
        shutil.rmtree(self.folder, ignore_errors=True)

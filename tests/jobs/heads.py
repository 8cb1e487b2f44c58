"""A real Ray head (and more nodes) on ports and in folders of its own; ended by process id."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

RAY = Path(sys.executable).parent / "ray"
UP_S = 120.0


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


@dataclass
class Head:
    """A cluster. `url` is its dashboard's; `address` its GCS's."""

    folder: Path
    token: str
    url: str = ""
    address: str = ""
    nodes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def variables(self, **more: str) -> dict[str, str]:
        """The environment of its nodes and of its clients."""
        given = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "AGENTMEM_RUNS"))}
        auth = (
            {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}
            if self.token
            else {"RAY_AUTH_MODE": "disabled"}
        )
        return {**given, **auth, "RAY_USAGE_STATS_ENABLED": "0", "HOME": str(self.folder), **more}

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        """`ray start … --block`: a process whose end is the node's."""
        log = (self.folder / f"node-{len(self.nodes)}.log").open("wb")
        env = self.variables(**variables)
        # Its PATH is the one of the jobs' drivers.
        env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
        process = subprocess.Popen(
            [str(RAY), "start", *arguments, "--block", "--disable-usage-stats"],
            stdout=log,
            stderr=log,
            cwd=self.folder,
            env=env,
        )
        self.nodes.append(process)
        return process

    def join(self, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        """One more node on this host."""
        agent, runtime = free_ports(2)
        return self.start(
            f"--address={self.address}",
            f"--dashboard-agent-listen-port={agent}",
            f"--runtime-env-agent-port={runtime}",
            *arguments,
            **variables,
        )

    def ask(self, path: str) -> object:
        """GET of the dashboard, as JSON."""
        request = urllib.request.Request(f"{self.url}{path}")
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.load(reply)

    def log(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in self.folder.glob("node-*.log"))

    def end(self) -> None:
        """All processes of all nodes."""
        family: list[psutil.Process] = []
        for node in self.nodes:
            with contextlib.suppress(psutil.NoSuchProcess):
                family += [psutil.Process(node.pid), *psutil.Process(node.pid).children(recursive=True)]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        _, left = psutil.wait_procs(family, timeout=15)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=15)
        for node in self.nodes:
            node.wait(15)


@contextlib.contextmanager
def head(*, cpus: int = 8, token: bool = True, variables: Mapping[str, str] | None = None) -> Iterator[Head]:
    """A head with token authentication whose agents may still be starting. `variables`: of its nodes."""
    folder = Path(tempfile.mkdtemp(prefix="am-ray-"))  # short: sockets lie below it
    made = Head(folder, secrets.token_hex(16) if token else "")
    gcs, dashboard, agent, client, metrics = free_ports(5)
    made.url = f"http://127.0.0.1:{dashboard}"
    made.start(
        "--head", f"--port={gcs}", "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}",
        f"--dashboard-agent-listen-port={agent}", f"--ray-client-server-port={client}",
        f"--metrics-export-port={metrics}", f"--num-cpus={cpus}", f"--temp-dir={folder / 'ray'}",
        "--object-store-memory=200000000", **(variables or {}),
    )  # fmt: skip
    try:
        end = time.monotonic() + UP_S
        while True:
            with contextlib.suppress(urllib.error.URLError, OSError, ValueError):
                made.ask("/api/version")
                break
            assert made.nodes[0].poll() is None, made.log()
            assert time.monotonic() < end, made.log()
            time.sleep(0.2)
        made.address = f"{_host(made)}:{gcs}"
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)


def _host(made: Head) -> str:
    from learner.rendezvous import own_address

    return own_address()

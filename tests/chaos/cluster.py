"""One live run of the whole product, and what can be seen of it from outside: processes, metrics, buffer."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from agentmem.replay import Counters, ReplayBuffer
from tests.chaos.cells import TITLES, Victim
from tests.e2e.runs import TINY, Run

PING_TIMEOUT_S = 6.0
SETTINGS = (
    *TINY,
    "env.placement=worker",
    "evaluation.tasks=0",
    "learner.updates=100000",
    "supervision.restart_budget=1000",
    f"supervision.ping_timeout_s={PING_TIMEOUT_S}",
    "replay.lease_s=20",
)
GONE_S = 20.0
"""After the driver's death: until all of its family is gone ..."""
RAY_AGENTS_GONE_S = 80.0
"""... but for Ray's own two node agents, which try for 60 s to report their raylet's death."""


class Broken(AssertionError):
    """A promise of the system was not kept."""


@dataclass(frozen=True, slots=True)
class Account:
    """Metrics and buffer at one moment."""

    counters: Counters
    groups: list[str]
    """Consumed, as the metrics tell."""
    missing: set[str]
    """Issued, but neither consumed nor anywhere in the buffer."""

    @property
    def lost(self) -> int:
        """Trials that are nowhere or that were given up."""
        return len(self.missing) + self.counters.failed + self.counters.expired

    @property
    def duplicated(self) -> int:
        """Groups consumed more than once."""
        return len(self.groups) - len(set(self.groups))


class Cluster:
    """Start it with `start`; `close` ends whatever is left."""

    def __init__(self, folder: Path, engine: str = "torch", settings: tuple[str, ...] = ()) -> None:
        """`engine`: the backend. `settings`: further ones."""
        self.folder, self.engine = folder, engine
        self._settings = (*SETTINGS, f"engines.agent.backend={engine}", *settings)
        self.holds = folder / "holds"
        self.holds.mkdir(parents=True, exist_ok=True)
        self.run: Run
        self._begun = False
        self._buffer: ReplayBuffer | None = None
        self._starts = 0

    def start(self, *, resume: bool = False) -> None:
        """Start the run, or go on with it after its driver's death. Returns when it trains."""
        runs = self.folder / "runs"
        runs.mkdir(exist_ok=True)
        log = self.folder / f"log-{self._starts}.txt"
        self._starts += 1
        arguments = [sys.executable, "-m", "agentmem", "run", "lamer-minesweeper"]
        arguments += [part for setting in self._settings for part in ("--set", setting)]
        arguments += ["--resume", "last"] if resume else []
        with log.open("w") as out:
            process = subprocess.Popen(
                arguments,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, "AGENTMEM_RUNS": str(runs), "AGENTMEM_CHAOS": str(self.holds)},
                start_new_session=True,
            )
        self.run = Run(process, runs, log)
        self._begun = True
        self.forget_buffer()
        before = len(self.updates()) if resume else 0
        events = len(self.run.records("event")) if resume else 0
        if resume:
            self.run.until(lambda: len(self.run.records("event")) > events)
            before = len(self.updates())
        self.run.until(lambda: len(self.updates()) > before)

    def close(self) -> None:
        """End everything that this started."""
        for hold in self.holds.glob("*.hold"):
            hold.unlink()
        self.forget_buffer()
        if self._begun and self.run.process.poll() is None:
            family = self.family()
            for process in [psutil.Process(self.run.process.pid), *family]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self.run.process.wait(30)

    # --- processes

    def family(self) -> list[psutil.Process]:
        """All processes that the driver brought into being."""
        return psutil.Process(self.run.process.pid).children(recursive=True)

    def victim(self, victim: Victim) -> psutil.Process | None:
        """Its process; None while there is none."""
        living = self.living(victim)
        return living[-1] if living else None

    def living(self, victim: Victim) -> list[psutil.Process]:
        """Its processes: one, but for the moments in which one takes another's place."""
        if victim == "driver":
            return [psutil.Process(self.run.process.pid)]
        if victim == "Redis":
            found = [p for p in self.family() if re.match(r"(redis|valkey)-server", _name(p))]
        else:
            found = [p for p in self.family() if _command(p).startswith(TITLES[victim])]
        return [p for p in found if not gone(p)]

    # --- moments

    def reach(self, place: str, seconds: float = 90.0) -> int:
        """Hold the first part that comes to a moment; its process id."""
        held = self.holds / f"{place}.held"
        held.unlink(missing_ok=True)
        (self.holds / f"{place}.hold").touch()
        until(lambda: held.is_file() and held.read_text() != "", seconds, f"nobody came to {place}")
        return int(held.read_text())

    def release(self, place: str) -> None:
        """Let it go on."""
        (self.holds / f"{place}.hold").unlink(missing_ok=True)
        (self.holds / f"{place}.held").unlink(missing_ok=True)

    # --- what is known

    def updates(self) -> list[dict[str, Any]]:
        """The update records."""
        return self.run.records("update")

    def buffer(self) -> ReplayBuffer:
        """A client of the run's buffer."""
        if self._buffer is None:
            server = self.victim("Redis")
            if server is None:
                raise Broken("there is no replay server")
            (socket,) = {Path(c.laddr) for c in server.net_connections("unix") if str(c.laddr).endswith("/s")}
            text = (socket.parent / "conf").read_text()
            password = re.search(r"^requirepass (.+)$", text, re.MULTILINE)
            assert password is not None
            url = f"unix://:{password[1]}@{socket}"
            self._buffer = ReplayBuffer(url, self.run.path.name, deadline_s=60.0)
        return self._buffer

    def forget_buffer(self) -> None:
        """The next driver's server has another address."""
        if self._buffer is not None:
            self._buffer.close()
        self._buffer = None

    def account(self, seconds: float = 30.0) -> Account:
        """A consistent look at metrics and buffer. Raises Broken if they never agree."""
        end = time.monotonic() + seconds
        while True:
            before = self.updates()
            buffer = self.buffer()
            counters, inside = buffer.counters(), self._groups_inside()
            told = sum(u["trials"] for u in before)
            if self.updates() == before and told == counters.trained + counters.filtered:
                groups = [g for u in before for g in u["groups"]]
                known = {*groups, *inside}
                last = max((int(g[1:]) for g in known), default=-1)
                missing = {f"g{n:07d}" for n in range(last + 1)} - known
                if not missing or time.monotonic() > end:
                    return Account(counters, groups, missing)
            if time.monotonic() > end:
                raise Broken(
                    f"the metrics tell of {told} trained trials, the buffer of {counters.trained} "
                    f"(+ {counters.filtered} filtered)"
                )

    def _groups_inside(self) -> set[str]:
        buffer = self.buffer()
        client, keys = buffer.server.client, buffer.keys
        found = set(client.smembers(keys("open")))
        for name in ("ready", "taken"):
            found |= set(client.zrange(keys(name), 0, -1))
        return {g.decode() for g in found}


def until(condition: Callable[[], bool], seconds: float, what: str) -> float:
    """Wait for a condition; the seconds it took. Raises Broken."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise Broken(f"{what} within {seconds:g} s")
        time.sleep(0.02)
    return time.monotonic() - began


def gone(process: psutil.Process) -> bool:
    """It is dead (or a corpse that nobody has buried)."""
    return _status(process) in (psutil.STATUS_ZOMBIE, "gone")


def of_ray_itself(process: psutil.Process) -> bool:
    """One of the node agents that Ray starts beside a raylet. They hold nothing of a run."""
    return _command(process).startswith(("ray::DashboardAgent", "ray::RuntimeEnvAgent"))


def end(process: psutil.Process) -> None:
    """SIGKILL."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return "gone"


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""

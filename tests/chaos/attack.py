"""One cell of the matrix on a live run: reach the moment, strike, see it recover, check the accounts."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from tests.chaos.cells import Cell
from tests.chaos.cluster import (
    GONE_S,
    PING_TIMEOUT_S,
    RAY_AGENTS_GONE_S,
    Account,
    Broken,
    Cluster,
    gone,
    of_ray_itself,
    until,
)

RECOVER_S = 120.0
FROZEN_S = 10.0
"""How long the driver stays frozen, which nothing in the run can replace: longer than pings may take."""
SLICE_S = 0.05
SLOWNESS = 10


@dataclass(frozen=True, slots=True)
class Result:
    """What a cell showed."""

    recovery_s: float
    account: Account


def attack(cluster: Cluster, cell: Cell) -> Result:
    """Raises Broken when a promise isn't kept; the run is then of no more use."""
    victim = cluster.victim(cell.victim)
    if victim is None:
        raise Broken(f"there is no {cell.victim}")
    pid = cluster.reach(cell.place)
    if cell.own and victim.pid not in (pid, *(p.pid for p in psutil.Process(pid).parents())):
        raise Broken(f"process {pid} is {cell.moment}, the {cell.victim} is {victim.pid}")
    if cell.moment == "idle":
        until(lambda: _nothing_to_play(cluster), 60.0, "the agents were never idle")
    if cell.signal == "10x slow":
        seconds = _slow(cluster, cell, victim)
    elif cell.victim == "driver" and cell.signal == "SIGKILL":
        seconds = _driver_killed(cluster, cell)
    elif cell.victim == "driver":
        seconds = _driver_frozen(cluster, cell, victim)
    else:
        seconds = _replaced(cluster, cell, victim)
    account = cluster.account()
    if not account.counters.identity_holds:
        raise Broken(f"the accounting identity doesn't hold: {account.counters}")
    if account.lost or account.duplicated:
        raise Broken(
            f"{account.lost} lost ({sorted(account.missing)}, {account.counters.drops}), "
            f"{account.duplicated} duplicated"
        )
    return Result(seconds, account)


def _nothing_to_play(cluster: Cluster) -> bool:
    counters = cluster.buffer().counters()
    return counters.queued == counters.running == 0


def _replaced(cluster: Cluster, cell: Cell, victim: psutil.Process) -> float:
    """Killed or frozen: a new process is in its place and trains; the old one is gone with its children."""
    old = [victim, *victim.children(recursive=True)]
    told = len(cluster.run.records("event"))
    number = signal.SIGKILL if cell.signal == "SIGKILL" else signal.SIGSTOP
    with _train_on(cluster) as trained:
        struck = time.monotonic()
        victim.send_signal(number)
        cluster.release(cell.place)

        def whole() -> bool:
            _alive(cluster)
            fresh = cluster.victim(cell.victim)
            return fresh is not None and fresh.pid != victim.pid and trained()

        until(whole, RECOVER_S, f"no new {cell.victim} that trains")
        seconds = time.monotonic() - struck
    until(lambda: all(gone(p) for p in old), GONE_S, f"orphans of the {cell.victim}: {old}")
    until(lambda: len(cluster.living(cell.victim)) == 1, GONE_S, f"more than one {cell.victim}")
    until(lambda: len(cluster.run.records("event")) > told, GONE_S, "the restart isn't among the events")
    return seconds


def _slow(cluster: Cluster, cell: Cell, victim: psutil.Process) -> float:
    """A tenth of its time: the run goes on, and nobody is replaced."""
    restarts = len(cluster.run.records("event"))
    ended = threading.Event()

    def brake() -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            while not ended.is_set():
                victim.suspend()
                ended.wait(SLICE_S * (SLOWNESS - 1))
                victim.resume()
                ended.wait(SLICE_S)
            victim.resume()

    thread = threading.Thread(target=brake)
    with _train_on(cluster) as trained:
        struck = time.monotonic()
        thread.start()
        cluster.release(cell.place)
        try:
            until(lambda: _alive(cluster) and trained(), RECOVER_S, f"no update with a slow {cell.victim}")
        finally:
            seconds = time.monotonic() - struck
            ended.set()
            thread.join()
    events = cluster.run.records("event")[restarts:]
    present = cluster.victim(cell.victim)
    if events or present is None or present.pid != victim.pid:
        raise Broken(f"slow, not dead: {events}")
    return seconds


def _driver_killed(cluster: Cluster, cell: Cell) -> float:
    """Nothing of it survives; a resume goes on."""
    family = [p for p in cluster.family() if not of_ray_itself(p)]
    agents = [p for p in cluster.family() if of_ray_itself(p)]
    struck = time.monotonic()
    cluster.run.process.send_signal(signal.SIGKILL)
    cluster.run.process.wait(10)
    try:
        until(lambda: all(gone(p) for p in family), GONE_S, "orphans of the driver")
    except Broken as error:
        left = [f"{p.pid} {' '.join(p.cmdline())[:80]}" for p in family if not gone(p)]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        raise Broken(f"{error}: {left}") from None
    finally:
        cluster.release(cell.place)
    cluster.start(resume=True)
    seconds = time.monotonic() - struck
    left = RAY_AGENTS_GONE_S - seconds
    until(lambda: all(gone(p) for p in agents), left, f"orphans of Ray itself: {agents}")
    return seconds


def _driver_frozen(cluster: Cluster, cell: Cell, victim: psutil.Process) -> float:
    """Whoever runs the driver lets it go on (or kills it, which is another cell): it accuses nobody."""
    assert FROZEN_S > PING_TIMEOUT_S
    events = len(cluster.run.records("event"))
    victim.suspend()
    cluster.release(cell.place)
    frozen = time.monotonic()
    until(lambda: time.monotonic() - frozen > FROZEN_S, FROZEN_S + 1, "time stands still")
    with _train_on(cluster) as trained:
        victim.resume()
        seconds = until(lambda: _alive(cluster) and trained(), RECOVER_S, "no update after the freeze")
    more = cluster.run.records("event")[events:]
    if more:
        raise Broken(f"parts were replaced because the driver was frozen: {more}")
    return seconds


@contextlib.contextmanager
def _train_on(cluster: Cluster) -> Iterator[object]:
    """Gives a function: has an update been made that began after this point?

    The second new record is the first that began after it. A restored learner cuts records off, so records
    are told apart by their time, which only grows.
    """
    last = max((u["t"] for u in cluster.updates()), default=0.0)

    def trained() -> bool:
        return sum(u["t"] > last for u in cluster.updates()) >= 2

    yield trained


def _alive(cluster: Cluster) -> bool:
    if cluster.run.process.poll() is not None:
        raise Broken(f"the run ended: {cluster.run.output().strip().splitlines()[-1]}")
    return True

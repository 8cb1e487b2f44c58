"""What a run's sizes become: wishes first, then the autoscaler; what can't be met is told, no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from actors.autoscaler import Signals
from agentmem.app.live import scaler as module
from agentmem.app.live.scaler import Scaler
from agentmem.config import load_config
from agentmem.failures import ResourceError
from agentmem.replay import Wishes
from agentmem.telemetry import Metrics

BASE = ["env.placement=worker", "env.workers=2"]
AUTO = [
    "scaling.autoscale.env_workers={least: 1, most: 6}",
    "scaling.autoscale.every_s=0.001",
    "scaling.autoscale.patience_up=1",
    "scaling.autoscale.patience_down=1",
    "scaling.autoscale.pause=0",
]


class System:
    """A stand-in: parts come at once, up to `room` of a kind."""

    def __init__(self) -> None:
        self.sizes = {"engines.agent": 1, "agents": 1, "env-workers": 2}
        self.said = Wishes()
        self.room = 10
        self.buffer = self

    def wishes(self) -> Wishes:
        return self.said

    def wish(self, **numbers: int) -> None:
        given = {kind.replace("_", "-"): n for kind, n in numbers.items()}
        self.said = Wishes(sequence=self.said.sequence + 1, numbers=given)

    def desired(self) -> dict[str, int]:
        return dict(self.sizes)

    running = desired

    def leaving(self) -> dict[str, int]:
        return {}

    async def find_room(self, new: Any, sizes: Any, say: Callable[[str], None], stop: Any) -> None:
        if max(sizes.values()) > self.room:
            raise ResourceError(f"not enough resources: room for {self.room}")

    async def scale(self, kind: str, number: int) -> None:
        self.sizes[kind] = number


class Monitor:
    """A stand-in: the env workers' load is `busy` of 16 places a worker."""

    def __init__(self, system: System) -> None:
        self._system, self.busy, self.learner_wait = system, 16.0, 1.0
        self.meter = self

    def take(self, learner_wait: float) -> Signals:
        slots = 16 * self._system.sizes["env-workers"]
        return Signals(env_busy=self.busy, env_slots=slots, learner_wait=learner_wait)


@pytest.fixture(autouse=True)
def on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "alone", lambda: False)


def scaler_of(*settings: str) -> tuple[Scaler, System, Monitor, list[str]]:
    config = load_config("lamer-minesweeper", [*BASE, *settings])
    system, events = System(), list[str]()
    monitor = Monitor(system)
    parts: Any = (system, monitor)
    made = Scaler(config, *parts, Metrics("r", None), lambda what, detail: events.append(detail))
    return made, system, monitor, events


async def looks(scaler: Scaler, count: int = 3) -> None:
    """So many looks, each change finished before the next one."""
    for _ in range(count):
        await scaler.look()
        await asyncio.gather(*(change.task for change in scaler._changes.values()))
        await asyncio.sleep(0.002)


async def test_a_wish_is_met_and_taken_back() -> None:
    scaler, system, _, events = scaler_of()
    await looks(scaler)
    assert system.sizes["agents"] == 1
    system.wish(agents=4)
    await looks(scaler)
    assert system.sizes["agents"] == 4
    assert scaler.kinds()["agents"].wished == 4
    assert scaler.kinds()["agents"].reached
    system.wish()
    await looks(scaler)
    assert system.sizes["agents"] == 1
    assert events == ["agents: 1 -> 4 (wished for)", "agents: 4 -> 1 (as configured)"]


async def test_a_wish_without_room_is_told_once_and_the_old_number_stands() -> None:
    scaler, system, _, events = scaler_of()
    system.room = 3
    system.wish(agents=9)
    await looks(scaler, 5)
    found = scaler.kinds()["agents"]
    assert (found.running, found.refused) == (1, True)
    assert "room for 3" in found.note
    assert len(events) == 1
    assert "agents stay 1, not 9 (wished for): ResourceError: not enough resources" in events[0]
    system.wish(agents=2)
    await looks(scaler)
    assert system.sizes["agents"] == 2
    assert not scaler.kinds()["agents"].refused


async def test_the_autoscaler_follows_the_load_within_its_bounds() -> None:
    scaler, system, monitor, events = scaler_of(*AUTO)
    monitor.busy = 200.0
    await looks(scaler, 8)
    assert system.sizes["env-workers"] == 6
    assert "autoscaler: load" in events[0]
    monitor.busy = 0.0
    await looks(scaler, 8)
    assert system.sizes["env-workers"] == 1
    monitor.busy, monitor.learner_wait = 200.0, 0.01
    await looks(scaler, 4)
    assert system.sizes["env-workers"] == 1, "the learner has enough"


async def test_a_wish_holds_a_kind_against_the_autoscaler() -> None:
    scaler, system, monitor, _ = scaler_of(*AUTO)
    system.wish(env_workers=3)
    monitor.busy = 200.0
    await looks(scaler, 5)
    assert system.sizes["env-workers"] == 3
    system.wish()
    await looks(scaler, 8)
    assert system.sizes["env-workers"] == 6


async def test_an_autoscaler_without_room_stays_and_tries_again_later() -> None:
    scaler, system, monitor, _ = scaler_of(*AUTO)
    system.room, monitor.busy = 3, 200.0
    await looks(scaler, 5)
    assert system.sizes["env-workers"] == 2
    system.room = 10
    await looks(scaler, 5)
    assert system.sizes["env-workers"] > 2

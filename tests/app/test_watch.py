"""What goes on beside the loop, with parts that are stand-ins."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agentmem.app.live import watch as module
from agentmem.app.live.interrupt import InterruptFlag
from agentmem.app.live.watch import Watch
from agentmem.config import load_config
from agentmem.failures import AgentMemError, BudgetError, StalledError
from agentmem.replay import Counters


class System:
    """A stand-in: counts how often it is looked after."""

    started = ("fleet",)
    lost_learner = None

    def __init__(self) -> None:
        self.supervised = 0
        self.error: Exception | None = None
        self.fleet = SimpleNamespace(size=lambda: {"agent": 2, "env_worker": 0})

    async def supervise(self) -> None:
        self.supervised += 1
        if self.error is not None:
            raise self.error

    def restarts(self) -> dict[str, int]:
        return {"agent": self.supervised // 2}

    def serving(self) -> dict[str, int]:
        return {"agent": 1}


class Monitor:
    """A stand-in: what would have been counted."""

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self.totals = SimpleNamespace(trials=0)
        self.data_failures = {"agent-0": "KeyError: 'the bug' [minesweeper 4]"}

        self.happened: list[tuple[str, str]] = []

    async def poll(self) -> None:
        """Nothing new."""

    def news(self) -> list[tuple[str, str]]:
        told, self.happened = self.happened, []
        return told


def watch_of(
    system: System, counters: Counters, events: list[tuple[str, str]], stall_s: float = 300.0
) -> Watch:
    config = load_config("lamer-minesweeper", [f"supervision.stall_timeout_s={stall_s}"])
    parts: Any = (system, Monitor(counters))
    return Watch(config, *parts, InterruptFlag(), lambda what, detail: events.append((what, detail)))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SUPERVISE_S", "POLL_S", "LOOK_S"):
        monkeypatch.setattr(module, name, 0.01)


async def test_parts_are_looked_after_while_the_loop_waits_for_something_else() -> None:
    system, events = System(), cast("list[tuple[str, str]]", [])
    watch = watch_of(system, Counters(), events)
    await watch.look()
    await asyncio.sleep(0.2)  # the loop looks at nothing meanwhile
    assert system.supervised > 3
    assert events[0] == ("restart", "agent: 1 so far")
    await watch.close()


async def test_what_the_background_raises_ends_what_is_guarded() -> None:
    system = System()
    system.error = BudgetError("agent: 5 restarts are spent")
    watch = watch_of(system, Counters(), [])
    with pytest.raises(BudgetError, match="5 restarts"):
        await asyncio.wait_for(watch.guard(asyncio.sleep(60)), 10)
    await watch.close()


async def test_too_many_bugs_end_the_run_with_their_cause() -> None:
    watch = watch_of(System(), Counters(dead_letters=21), [])
    with pytest.raises(AgentMemError, match="21 trials failed for good: KeyError: 'the bug'"):
        await asyncio.wait_for(watch.guard(asyncio.sleep(60)), 10)
    await watch.close()


def test_the_watchdog_names_what_it_waits_for() -> None:
    counters = Counters(queued=3, running=5, buffered=7, groups_ready=1, blocked_producers=2, bytes=900)
    watch = watch_of(System(), counters, [], stall_s=1e-9)
    with pytest.raises(StalledError) as told:
        watch.check_stall(4, "4 complete groups")
    text = str(told.value)
    for part in (
        "update 4 waits for 4 complete groups",
        "3 trials queued, 5 running, 7 buffered",
        "1 groups complete",
        "2 agents, 1 engines",
        "2 agents blocked on the buffer",
    ):
        assert part in text


def test_progress_resets_the_watchdog() -> None:
    watch = watch_of(System(), Counters(), [], stall_s=60.0)
    watch.moved()
    watch.check_stall(1, "anything")

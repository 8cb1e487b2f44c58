"""Env workers without Ray: a hang or crash costs its own slot; answers travel together; slots come back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from actors.rollout import env_service
from actors.rollout.env_service import EnvService
from actors.rollout.env_session import RemoteEnvs, RemoteSession
from actors.rollout.env_wire import EnvDataError
from actors.rollout.local_env import LocalEnvs
from actors.rollout.strategies import strategy_of
from actors.rollout.trial import Limits, play_trial
from agentmem.failures import EnvError, FailureKind
from tests.rollout.rooms import settings
from tests.rollout.worlds import HallStyle, ScriptedPolicy, ticket


class InProcess:
    """A worker in the same event loop; counts its exchanges, and can be lost."""

    def __init__(self, service: EnvService, slots: int) -> None:
        self.service, self.slots = service, slots
        self.exchanges = 0
        self.lost = asyncio.Event()

    async def exchange(self, client: str, calls: bytes) -> bytes:
        self.exchanges += 1
        answer = asyncio.ensure_future(self.service.exchange(client, calls))
        lost = asyncio.ensure_future(self.lost.wait())
        done, rest = await asyncio.wait([answer, lost], return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        if lost in done:
            raise EnvError("worker is lost")
        return answer.result()


@contextlib.asynccontextmanager
async def service(
    slots: int = 4,
    *,
    light: bool = False,
    step_timeout_s: float = 30.0,
    client_lease_s: float = 60.0,
    memory_limit_mib: float | None = None,
    **options: object,
) -> AsyncIterator[tuple[EnvService, InProcess, RemoteEnvs]]:
    it = EnvService(
        settings(light=light, **options),
        slots,
        step_timeout_s=step_timeout_s,
        client_lease_s=client_lease_s,
        memory_limit_mib=memory_limit_mib,
    )
    worker = InProcess(it, slots)
    envs = RemoteEnvs("agent-0", HallStyle(), wait_s=5.0)
    envs.configure({"w": worker})
    try:
        yield it, worker, envs
    finally:
        await envs.close()
        await it.close()


async def walk(session: RemoteSession, steps: int) -> None:
    for _ in range(steps):
        await session.step("nowhere")


@pytest.mark.parametrize("light", [True, False])
async def test_a_remote_trial_is_the_local_trial(light: bool) -> None:
    order = ticket("lr", memory="both", env="rooms")
    answers = ["right", "remark go left", "left", "right"]
    local = await LocalEnvs(settings().make).open()
    limits = Limits(max_turns=5)
    here = await play_trial(order, local, ScriptedPolicy(answers), strategy_of(order.mode), limits)
    async with service(light=light) as (_, _, envs):
        session = await envs.open()
        there = await play_trial(order, session, ScriptedPolicy(answers), strategy_of(order.mode), limits)
        await session.close()
    assert there.episodes == here.episodes
    assert there.reflections == here.reflections


@pytest.mark.parametrize("how", ["hang", "spin"])
async def test_a_hung_step_ends_at_its_deadline_while_the_others_keep_their_pace(how: str) -> None:
    async with service(3, step_timeout_s=3.0) as (it, _, envs):
        hung, *others = [await envs.open() for _ in range(3)]
        await asyncio.gather(hung.reset(f"lr!{how}:0"), *(s.reset("l" * 9) for s in others))
        bad = asyncio.ensure_future(hung.step("left"))
        steps = 0
        while not bad.done():
            await asyncio.gather(*(s.step("nowhere") for s in others))
            steps += 1
        with pytest.raises(EnvError, match="step took longer than 3 s"):
            await bad
        assert steps > 2  # hundreds on a quiet core; waiting for the hung one would allow one
        assert it.stats().hung == 1
        await hung.close()
        again = await envs.open()
        assert (await again.reset("lr")).observation == "door 0 of 2"
        assert len(it.host_pids()) == 3


async def test_a_hung_reset_ends_at_its_deadline() -> None:
    it = EnvService(settings(), 1, step_timeout_s=0.5, start_timeout_s=3.0)
    envs = RemoteEnvs("agent-0", HallStyle())
    envs.configure({"w": InProcess(it, 1)})
    session = await envs.open()
    with pytest.raises(EnvError, match="reset took longer"):
        await session.reset("lr!hang:reset")
    await session.close()
    await envs.close()
    await it.close()


async def test_a_crash_costs_its_own_slot() -> None:
    async with service(2) as (it, _, envs):
        first, second = await envs.open(), await envs.open()
        await asyncio.gather(first.reset("lr!crash:0"), second.reset("lr"))
        with pytest.raises(EnvError, match="exit code 3"):
            await first.step("left")
        with pytest.raises(EnvError):
            await first.step("left")
        assert (await second.step("left")).observation == "door 1 of 2"
        assert it.stats().crashed == 1


async def test_failures_are_classified_where_they_happen() -> None:
    async with service(2) as (_, _, envs):
        lost, bug = await envs.open(), await envs.open()
        await lost.reset("lr!lost:0")
        await bug.reset("lr!bug:0")
        with pytest.raises(EnvError, match="the backend is gone"):
            await lost.step("left")
        with pytest.raises(EnvDataError, match="KeyError") as caught:
            await bug.step("left")
        assert caught.value.kind is FailureKind.DATA


async def test_light_environments_share_a_process_until_one_hangs() -> None:
    async with service(3, light=True, step_timeout_s=0.5) as (it, _, envs):
        sessions = [await envs.open() for _ in range(3)]
        await asyncio.gather(*(s.reset("lr!hang:1") for s in sessions))
        assert len(it.host_pids()) == 1
        await asyncio.gather(*(s.step("left") for s in sessions))
        with pytest.raises(EnvError):
            await sessions[0].step("left")
        for session in sessions:
            await session.close()
        assert it.stats().demoted
        sessions = [await envs.open() for _ in range(3)]
        await asyncio.gather(*(s.reset("lr") for s in sessions))
        assert len(it.host_pids()) == 3
        assert it.stats().hung == 1


async def test_the_calls_of_one_tick_travel_together() -> None:
    async with service(8, light=True) as (_, worker, envs):
        sessions = [await envs.open() for _ in range(8)]
        await asyncio.gather(*(s.reset("l" * 9) for s in sessions))
        before = worker.exchanges
        await asyncio.gather(*(walk(s, 20) for s in sessions))
        assert worker.exchanges - before < 8 * 20 / 2


async def test_sessions_beyond_the_slots_wait_for_their_turn() -> None:
    async with service(2, light=True) as (it, _, envs):

        async def visit() -> None:
            session = await envs.open()
            await session.reset("lr")
            await session.step("left")
            await session.close()

        await asyncio.wait_for(asyncio.gather(*(visit() for _ in range(10))), 30)
        assert it.stats().waiting == 0


async def test_a_waiting_session_that_gives_up_leaves_the_line() -> None:
    async with service(1, light=True) as (it, _, envs):
        first, second, third = [await envs.open() for _ in range(3)]
        await first.reset("lr")
        waits = asyncio.ensure_future(second.reset("lr"))
        await first.step("left")
        assert it.stats().waiting == 1
        waits.cancel()
        await second.close()
        await first.close()
        assert (await asyncio.wait_for(third.reset("lr"), 10)).observation == "door 0 of 2"


async def test_slots_of_a_silent_client_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env_service, "POLL_S", 0.1)
    async with service(1, light=True, client_lease_s=0.4) as (it, worker, envs):
        mine = await envs.open()
        await mine.reset("lr")
        worker.lost.set()  # from the worker's side: nothing is heard of this agent any more
        other = RemoteEnvs("agent-1", HallStyle())
        other.configure({"w": InProcess(it, 1)})
        session = await other.open()
        assert (await asyncio.wait_for(session.reset("lr"), 10)).observation == "door 0 of 2"
        assert it.stats().reclaimed == 1
        await session.close()
        await other.close()


async def test_an_open_session_is_kept_while_its_agent_waits_for_the_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(env_service, "POLL_S", 0.1)
    async with service(1, light=True, client_lease_s=0.5) as (it, _, envs):
        session = await envs.open()
        await session.reset("lr")
        await asyncio.sleep(1.5)  # three leases of silence
        assert (await session.step("left")).observation == "door 1 of 2"
        assert it.stats().reclaimed == 0


async def test_a_lost_worker_fails_its_sessions_and_the_others_take_over() -> None:
    async with service(1, light=True) as (_, worker, envs), service(1, light=True) as (it, second, _):
        session = await envs.open()
        await session.reset("lr")
        envs.configure({"w": worker, "v": second})
        worker.lost.set()
        with pytest.raises(EnvError, match="worker is lost"):
            await session.step("left")
        with pytest.raises(EnvError):
            await session.step("left")
        await session.close()
        again = await envs.open()
        await again.reset("lr")
        assert it.stats().busy == 1


async def test_without_any_worker_a_trial_waits_a_bounded_time() -> None:
    envs = RemoteEnvs("agent-0", HallStyle(), wait_s=0.1)
    with pytest.raises(EnvError, match="no env worker for"):
        await envs.open()


async def test_closing_ends_the_processes() -> None:
    async with service(2) as (it, _, envs):
        sessions = [await envs.open() for _ in range(2)]
        await asyncio.gather(*(s.reset("lr") for s in sessions))
        pids = it.host_pids()
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("how", ["spawn-crash", "spawn-hang"])
async def test_what_an_environment_started_ends_with_its_process(how: str, tmp_path: Path) -> None:
    log = tmp_path / "child"
    async with service(1, step_timeout_s=1.0, log=str(log)) as (_, _, envs):
        session = await envs.open()
        await session.reset(f"lr!{how}:0")
        with pytest.raises(EnvError):
            await session.step("left")
        child = int(log.read_text().split()[-1])
        await until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie")


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


async def test_a_process_that_grows_too_large_is_replaced_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env_service, "MEMORY_LOOK_S", 0.1)
    async with service(2, memory_limit_mib=250.0) as (_, _, envs):
        large, small = await envs.open(), await envs.open()
        await asyncio.gather(large.reset("lr!grow:0"), small.reset("l" * 50))
        with pytest.raises(EnvError, match=r"MiB, more than env.memory_limit_mib=250"):
            await asyncio.wait_for(walk(large, 1_000_000), 20)
        assert (await small.step("left")).observation == "door 1 of 50"
        await large.close()
        again = await envs.open()
        assert (await again.reset("lr")).observation == "door 0 of 2"


async def test_a_large_process_is_replaced_between_trials_without_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(env_service, "MEMORY_LOOK_S", 0.1)
    async with service(1, memory_limit_mib=400.0) as (it, _, envs):
        session = await envs.open()
        await session.reset("lr!grow:0")
        await session.step("nowhere")
        await session.close()
        await until(lambda: it.stats().recycled == 1)
        again = await envs.open()
        assert (await again.reset("lr")).observation == "door 0 of 2"
        assert (it.stats().crashed, it.stats().hung) == (0, 0)

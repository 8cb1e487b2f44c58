"""The agent between the buffer and the players: over a real embedded server, with scripted play."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from actors.rollout.agent_loop import AgentLoop
from actors.rollout.local_env import LocalEnvs
from actors.rollout.protocols import Policy
from actors.rollout.strategies import strategy_of
from actors.rollout.trial import Limits, Progress, play_trial
from agentmem.failures import EngineError, ReplayError
from agentmem.replay import EmbeddedServer, Group, Outcome, ReplayBuffer
from agentmem.trajectory import Ticket, Trial, TurnKind
from tests.rollout.worlds import Hall, ScriptedPolicy, ticket

LIMITS = Limits(max_turns=5)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as it:
        yield it


@pytest.fixture
def buffer(server: EmbeddedServer) -> Iterator[ReplayBuffer]:
    with ReplayBuffer(server.url, f"run-{uuid4().hex[:8]}", lease_s=2.0) as it:
        yield it


def orders(groups: int, size: int, **more: Any) -> list[Ticket]:
    return [
        msgspec.structs.replace(
            it := ticket("lr", name=f"g{g}-{m}", **more),
            member=m,
            group_size=size,
            task=msgspec.structs.replace(it.task, group=f"g{g}"),
        )
        for g in range(groups)
        for m in range(size)
    ]


class Player:
    """Plays with one policy; counts what it was asked to play."""

    def __init__(self, policy: Policy, make: Any = Hall) -> None:
        self.policy, self.envs = policy, LocalEnvs(make)
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, order: Ticket, saved: Trial | None, progress: Progress) -> Trial:
        self.asked.append((order.id, len(saved.episodes) if saved else 0))
        env = await self.envs.open()
        try:
            strategy = strategy_of(order.mode)
            return await play_trial(order, env, self.policy, strategy, LIMITS, saved=saved, progress=progress)
        finally:
            await env.close()


def lost_then_won(prompt: str, kind: TurnKind) -> str:
    if kind is TurnKind.REFLECT:
        return "remark go left"
    return "right" if "act 0/" in prompt or "door 1" in prompt else "left"


@contextlib.asynccontextmanager
async def running(agent: AgentLoop) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(agent.run())
    try:
        yield task
    finally:
        if not task.done():
            await agent.drain(0.0)
            await asyncio.wait_for(task, 10)


async def groups(buffer: ReplayBuffer, count: int) -> list[Group]:
    """The next groups; `take` itself is bounded."""
    return await asyncio.to_thread(_take, buffer, count)


def _take(buffer: ReplayBuffer, count: int) -> list[Group]:
    found: list[Group] = []
    while len(found) < count:
        more = buffer.take_groups(count - len(found), block_s=20.0)
        if not more:
            raise AssertionError(f"{len(found)} of {count} groups: {buffer.counters()}")
        found += more
    return found


async def test_every_ticket_is_played_and_committed_once(buffer: ReplayBuffer) -> None:
    buffer.submit(orders(20, 4))
    player = Player(ScriptedPolicy(lost_then_won))
    agent = AgentLoop("a", buffer, player, trials_in_flight=16)
    async with running(agent):
        found = await groups(buffer, 20)
        stats = agent.stats()
    ids = [trial.ticket for group in found for trial in group.trials]
    assert len(ids) == len(set(ids)) == 80
    assert all(trial.success and len(trial.episodes) == 2 for group in found for trial in group.trials)
    assert stats.trials == 80
    assert stats.stops == {"failure": 80, "success": 80}
    assert stats.reflections == 80
    assert stats.turns == 80 * 4
    assert buffer.counters().identity_holds


async def test_trials_in_flight_are_bounded_and_refilled(buffer: ReplayBuffer) -> None:
    buffer.submit(orders(10, 4))
    gate, inside, most = asyncio.Event(), 0, 0

    async def play(order: Ticket, saved: Trial | None, progress: Progress) -> Trial:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if inside >= 8:
            gate.set()
        await gate.wait()
        trial = await Player(ScriptedPolicy(lost_then_won))(order, saved, progress)
        inside -= 1
        return trial

    agent = AgentLoop("a", buffer, play, trials_in_flight=8)
    async with running(agent):
        await groups(buffer, 10)
    assert most == 8


async def test_an_infrastructure_failure_is_retried_behind_finished_episodes(
    buffer: ReplayBuffer,
) -> None:
    buffer.submit(orders(1, 2))
    died: set[int] = set()

    class DiesOnce(ScriptedPolicy):
        async def respond(self, prompt: Any, kind: TurnKind, student: Any = None, view: Any = None) -> Any:
            if "act 1/" in prompt and len(died) < 2:
                died.add(len(died))
                raise EngineError("engine agent-0 is dead")
            return await super().respond(prompt, kind)

    player = Player(DiesOnce(lost_then_won))
    agent = AgentLoop("a", buffer, player, trials_in_flight=4)
    async with running(agent):
        (group,) = await groups(buffer, 1)
        stats = agent.stats()
    assert len(group.trials) == 2
    assert sorted(player.asked) == [("g0-0", 0), ("g0-0", 1), ("g0-1", 0), ("g0-1", 1)]
    assert stats.failed == 2
    assert stats.resumed == 2
    assert "engine agent-0 is dead" in stats.last_failure
    assert [e.reward for e in group.trials[0].episodes] == [-0.5, 1.25]


async def test_a_data_failure_is_not_retried_and_says_so(
    buffer: ReplayBuffer, caplog: pytest.LogCaptureFixture
) -> None:
    buffer.submit(orders(1, 2))
    player = Player(ScriptedPolicy(lost_then_won), lambda: Hall(bug_at="door 1 of 2"))
    agent = AgentLoop("a", buffer, player, trials_in_flight=4)
    async with running(agent):
        async with asyncio.timeout(20):
            while agent.stats().data_failures < 2:
                await asyncio.sleep(0.01)
    assert len(player.asked) == 2
    assert buffer.counters().dead_letters == 2
    assert "KeyError" in caplog.text


async def test_drained_in_mid_trial_it_gives_tickets_back_with_their_progress(buffer: ReplayBuffer) -> None:
    buffer.submit(orders(1, 3))
    reached = asyncio.Event()

    class Stuck(ScriptedPolicy):
        async def respond(self, prompt: Any, kind: TurnKind, student: Any = None, view: Any = None) -> Any:
            if "act 1/" in prompt:
                reached.set()
                await asyncio.Event().wait()
            return await super().respond(prompt, kind)

    first = AgentLoop("a", buffer, Player(Stuck(lost_then_won)), trials_in_flight=4)
    async with running(first) as task:
        await asyncio.wait_for(reached.wait(), 20)
        async with asyncio.timeout(20):
            while first.stats().unwritten:
                await asyncio.sleep(0.01)
        stats = await first.drain(0.2)
        await asyncio.wait_for(task, 10)
    assert stats.in_flight == 0
    assert buffer.counters().queued == 3
    player = Player(ScriptedPolicy(lost_then_won))
    async with running(AgentLoop("b", buffer, player, trials_in_flight=4)):
        await groups(buffer, 1)
    assert sorted(player.asked) == [("g0-0", 1), ("g0-1", 1), ("g0-2", 1)]


async def test_drained_with_time_it_finishes_what_it_plays_and_claims_no_more(buffer: ReplayBuffer) -> None:
    buffer.submit(orders(25, 2))
    agent = AgentLoop("a", buffer, Player(ScriptedPolicy(lost_then_won)), trials_in_flight=4)
    async with running(agent) as task:
        await groups(buffer, 1)
        stats = await agent.drain(20.0)
        await asyncio.wait_for(task, 10)
    counters = buffer.counters()
    assert counters.running == 0
    assert counters.queued + stats.trials == 50
    assert stats.failed == 0


async def test_leases_are_kept_for_as_long_as_a_trial_takes(buffer: ReplayBuffer) -> None:
    buffer.submit(orders(1, 1))

    class Slow(ScriptedPolicy):
        async def respond(self, prompt: Any, kind: TurnKind, student: Any = None, view: Any = None) -> Any:
            await asyncio.sleep(1.5)  # four turns take three leases
            return await super().respond(prompt, kind)

    player = Player(Slow(lost_then_won))
    other = Player(ScriptedPolicy(lost_then_won))
    async with (
        running(AgentLoop("a", buffer, player, trials_in_flight=1)),
        running(AgentLoop("b", buffer, other, trials_in_flight=1)),
    ):
        await groups(buffer, 1)
    assert len(player.asked) + len(other.asked) == 1
    assert buffer.counters().leases_expired == 0


async def test_a_trial_whose_ticket_was_taken_over_is_stopped(buffer: ReplayBuffer) -> None:
    buffer.submit(orders(1, 1))
    stuck, cancelled = asyncio.Event(), asyncio.Event()

    async def play(order: Ticket, saved: Trial | None, progress: Progress) -> Trial:
        stuck.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    agent = AgentLoop("a", buffer, play, trials_in_flight=1)
    async with running(agent):
        await asyncio.wait_for(stuck.wait(), 20)
        buffer.forfeit("a")
        (claim,) = await asyncio.to_thread(buffer.claim, "b", 1, 10.0)
        await asyncio.wait_for(cancelled.wait(), 10)
        assert agent.stats().lost == 1
        buffer.release([claim])


async def test_a_buffer_that_is_gone_ends_the_agent_with_its_cause() -> None:
    with EmbeddedServer() as own:
        buffer = ReplayBuffer(own.url, "run", lease_s=2.0, deadline_s=0.5)
        agent = AgentLoop("a", buffer, Player(ScriptedPolicy(lost_then_won)), trials_in_flight=4)
        task = asyncio.create_task(agent.run())
        own.stop()
        with pytest.raises(ReplayError, match="can't be reached"):
            await asyncio.wait_for(task, 20)


async def test_a_trial_that_the_buffer_refuses_does_not_take_others_with_it(buffer: ReplayBuffer) -> None:
    buffer.submit(orders(3, 1))
    player = Player(ScriptedPolicy(lost_then_won))

    async def play(order: Ticket, saved: Trial | None, progress: Progress) -> Trial:
        trial = await player(order, saved, progress)
        return msgspec.structs.replace(trial, member=7) if order.id == "g1-0" else trial

    agent = AgentLoop("a", buffer, play, trials_in_flight=4)
    async with running(agent):
        found = await groups(buffer, 2)
        async with asyncio.timeout(20):
            while not agent.stats().data_failures:
                await asyncio.sleep(0.01)
    assert {group.id for group in found} == {"g0", "g2"}
    assert "member" in agent.stats().last_failure


async def test_a_full_buffer_stops_claims_but_loses_nothing(server: EmbeddedServer) -> None:
    with ReplayBuffer(server.url, f"run-{uuid4().hex[:8]}", lease_s=1.0, byte_budget=6_000) as buffer:
        buffer.submit(orders(60, 1))
        agent = AgentLoop("a", buffer, Player(ScriptedPolicy(lost_then_won)), trials_in_flight=8)
        async with running(agent):
            async with asyncio.timeout(20):
                while agent.stats().blocked_s < 1.5:  # longer than a lease
                    await asyncio.sleep(0.01)
            counters = buffer.counters()
            assert counters.queued > 30
            assert counters.running <= 8
            seen: list[str] = []
            async with asyncio.timeout(60):
                while len(seen) < 60:
                    found = await groups(buffer, 1)
                    seen += [group.id for group in found]
                    buffer.finish_groups([group.id for group in found], Outcome.TRAINED)
        assert len(set(seen)) == 60
        assert buffer.counters().leases_expired == 0
        assert buffer.counters().identity_holds

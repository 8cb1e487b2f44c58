"""Agent actors on a real cluster, with a real engine and a real buffer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray

from actors import agent, env_worker
from actors.agent_settings import AgentSettings
from agentmem.failures import AgentMemError, ConfigError
from agentmem.replay import ReplayBuffer
from agentmem.trajectory import StopReason
from tests.actors.conftest import START_S, minesweeper_tickets, take_all, tickets, until
from tests.rollout.rooms import settings as rooms

pytestmark = pytest.mark.usefixtures("cluster")
OpenBuffer = Callable[..., ReplayBuffer]
MakeSettings = Callable[..., AgentSettings]


async def started(
    settings: AgentSettings, name: str, engine: Any, workers: dict[str, Any]
) -> tuple[Any, Any]:
    handle = agent.create(settings, name)
    await asyncio.wait_for(handle.start.remote(), START_S)
    await asyncio.wait_for(handle.configure.remote({"agent-0": engine}, workers), 20)
    return handle, handle.run.remote()


async def pid_of(handle: Any) -> int:
    return int(await asyncio.wait_for(handle.__ray_call__.remote(lambda self: os.getpid()), 20))


async def test_trials_are_played_to_their_end_with_the_engines_ids(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any
) -> None:
    buffer = open_buffer()
    buffer.submit(minesweeper_tickets(6, 4))
    handle, run = await started(settings(buffer), "a", engine, {})
    groups = await take_all(buffer, 6)
    stats = await asyncio.wait_for(handle.drain.remote(20.0), 40)
    await asyncio.wait_for(run, 10)
    ray.kill(handle)
    trials = [trial for group in groups for trial in group.trials]
    assert len({trial.ticket for trial in trials}) == len(trials) == 24
    for trial in trials:
        assert trial.success or len(trial.episodes) == 3
        for episode in trial.episodes:
            assert episode.initial_observation == trial.episodes[0].initial_observation
            assert episode.stop in (StopReason.SUCCESS, StopReason.FAILURE, StopReason.STEP_LIMIT)
        for turn in trial.turns():
            assert turn.response_ids is not None
            assert len(turn.response_ids) == 1
            assert turn.prompt_ids[0] == 1
            assert turn.versions == (0,)
    assert stats.trials == 24
    assert stats.turns == sum(len(trial.turns()) for trial in trials)
    assert stats.in_flight == 0


async def test_its_event_loop_is_uvloop_where_there_is_one(
    settings: MakeSettings, open_buffer: OpenBuffer
) -> None:
    pytest.importorskip("uvloop")
    handle = agent.create(settings(open_buffer()), "a")
    await asyncio.wait_for(handle.start.remote(), START_S)
    kind = await handle.__ray_call__.remote(lambda self: type(self._client._loop).__module__)
    ray.kill(handle)
    assert "uvloop" in kind


async def test_killed_in_mid_trial_another_agent_completes_every_trial_once(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any, tmp_path: Path
) -> None:
    buffer = open_buffer(lease_s=2.0)
    env = rooms(step_s=0.05)
    buffer.submit(tickets("rooms", ["l" * 9] * 4, 4, memory="reflection"))
    worker = env_worker.create(env, "w", slots=32, step_timeout_s=20.0)
    first, _ = await started(settings(buffer, env), "a", engine, {"w": (worker, 32)})

    async def mid_trial() -> bool:
        stats = await first.stats.remote()
        return stats.episodes >= 8 and stats.in_flight > 0 and stats.unwritten == 0

    await until(mid_trial)
    assert buffer.counters().running > 0
    os.kill(await pid_of(first), signal.SIGKILL)
    second, run = await started(settings(buffer, env), "b", engine, {"w": (worker, 32)})
    groups = await take_all(buffer, 4)
    stats = await asyncio.wait_for(second.drain.remote(20.0), 40)
    await asyncio.wait_for(run, 10)
    counts = Counter(trial.ticket for group in groups for trial in group.trials)
    assert len(counts) == 16
    assert set(counts.values()) == {1}
    assert stats.resumed > 0
    for group in groups:
        for trial in group.trials:
            assert [len(e.turns) for e in trial.episodes] == [6, 6, 6]
            assert len(trial.reflections) == 2
    counters = buffer.counters()
    assert counters.identity_holds
    assert counters.leases_expired > 0
    for handle in (second, worker):
        ray.kill(handle)


async def test_an_env_worker_killed_in_mid_trial_costs_attempts_but_no_trial(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any
) -> None:
    buffer = open_buffer()
    env = rooms(step_s=0.05)
    buffer.submit(tickets("rooms", ["l" * 9] * 2, 4))
    first, second = (env_worker.create(env, name, slots=4, step_timeout_s=20.0) for name in ("v", "w"))
    handle, run = await started(settings(buffer, env), "a", engine, {"v": (first, 4), "w": (second, 4)})

    async def both_busy() -> bool:
        busy = [(await worker.stats.remote()).busy for worker in (first, second)]
        return min(busy) > 0 and (await handle.stats.remote()).episodes > 0

    await until(both_busy)
    hosts = await first.host_pids.remote()
    os.kill(await pid_of(first), signal.SIGKILL)
    groups = await take_all(buffer, 2)
    stats = await asyncio.wait_for(handle.drain.remote(20.0), 40)
    await asyncio.wait_for(run, 10)
    assert sum(len(group.trials) for group in groups) == 8
    assert all(trial.valid and len(trial.episodes) == 3 for group in groups for trial in group.trials)
    assert stats.failed > 0
    assert buffer.counters().failed == 0

    async def gone() -> bool:  # its environments went with it
        return not any(Path(f"/proc/{pid}").exists() for pid in hosts)

    assert hosts
    await until(gone, 10)
    for each in (handle, second):
        ray.kill(each)


async def test_a_hung_environment_fails_its_own_trial_while_others_finish(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any
) -> None:
    buffer = open_buffer(retry_budget=1)
    env = rooms()
    buffer.submit(tickets("rooms", ["lr!spin:0", "l" * 9, "r" * 9], 1))
    worker = env_worker.create(env, "w", slots=4, step_timeout_s=1.0)
    handle, run = await started(settings(buffer, env), "a", engine, {"w": (worker, 4)})
    groups = await take_all(buffer, 2)
    assert {group.id for group in groups} == {"g1", "g2"}

    async def given_up() -> bool:
        return buffer.counters().dead_letters == 1

    await until(given_up)
    stats = await asyncio.wait_for(handle.drain.remote(5.0), 30)
    await asyncio.wait_for(run, 10)
    assert "took longer than 1 s" in stats.last_failure
    assert stats.loop_lag_s < 1.0
    assert (await worker.stats.remote()).hung == 2
    for each in (handle, worker):
        ray.kill(each)


async def test_new_engines_are_used_from_configure_on(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any
) -> None:
    buffer = open_buffer()
    buffer.submit(minesweeper_tickets(2, 2))
    handle = agent.create(settings(buffer), "a")
    await asyncio.wait_for(handle.start.remote(), START_S)
    run = handle.run.remote()
    await handle.configure.remote({}, {})

    async def waits_for_an_engine() -> bool:
        return (await handle.stats.remote()).in_flight == 4

    await until(waits_for_an_engine)
    await handle.configure.remote({"agent-0": engine}, {})
    await take_all(buffer, 2)
    await asyncio.wait_for(handle.drain.remote(5.0), 30)
    await asyncio.wait_for(run, 10)
    ray.kill(handle)


async def test_a_model_that_cannot_serve_is_refused_at_the_start(
    open_buffer: OpenBuffer, settings: MakeSettings, model: Path, tmp_path: Path
) -> None:
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / file).write_bytes((model / file).read_bytes())
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 7}))
    handle = agent.create(settings(open_buffer(), model=str(tmp_path)), "a")
    with pytest.raises(AgentMemError, match="vocab_size is 7"):
        await asyncio.wait_for(handle.start.remote(), START_S)
    ray.kill(handle)


async def test_local_placement_is_for_light_environments_only(
    open_buffer: OpenBuffer, settings: MakeSettings
) -> None:
    with pytest.raises(ConfigError, match="isn't declared light"):
        settings(open_buffer(), rooms(), placement="local")

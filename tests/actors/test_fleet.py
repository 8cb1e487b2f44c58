"""The fleet on a real cluster: the dead are replaced, numbers change at any time, ends have a cause."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from actors.agent_settings import AgentSettings
from actors.fleet import Fleet, Role
from actors.rollout.env_wire import EnvSettings
from agentmem.config.schema import RunConfig
from agentmem.failures import BudgetError, ModelError, ResourceError
from agentmem.replay import ReplayBuffer
from tests.actors.conftest import minesweeper_tickets, take_all, tickets, until
from tests.rollout.rooms import settings as rooms

pytestmark = pytest.mark.usefixtures("cluster")
OpenBuffer = Callable[..., ReplayBuffer]
MakeSettings = Callable[..., AgentSettings]
SMALL = {role: {"num_cpus": 0} for role in Role}


def config(
    placement: str, *, agents: int = 1, workers: int = 1, budget: int = 3, ping_s: float = 20.0
) -> RunConfig:
    return RunConfig.model_validate(
        {
            "env": {
                "name": "any",
                "placement": placement,
                "workers": workers,
                "slots_per_worker": 4,
                "step_timeout_s": 20.0,
            },
            "policies": {"agent": {"model": "tiny"}},
            "engines": {"agent": {}},
            "agents": {"replicas": agents},
            "supervision": {"restart_budget": budget, "drain_timeout_s": 10.0, "ping_timeout_s": ping_s},
        }
    )


@contextlib.asynccontextmanager
async def running(config: RunConfig, settings: AgentSettings, engine: Any) -> AsyncIterator[Fleet]:
    fleet = Fleet(config, settings, ray_options=SMALL)
    try:
        await fleet.start()
        await fleet.set_engines({"agent-0": engine})
        yield fleet
    finally:
        await fleet.close(1.0)


async def kill(handle: Any) -> None:
    pid = await asyncio.wait_for(handle.__ray_call__.remote(lambda self: os.getpid()), 20)
    os.kill(pid, signal.SIGKILL)


async def supervised(fleet: Fleet, role: Role, count: int, restarts: int) -> None:
    """Supervise until so many members run, after so many restarts."""

    async def there() -> bool:
        await fleet.supervise()
        return fleet.size()[role] == count and fleet.restarts()[role] == restarts

    await until(there)


async def test_agents_and_env_workers_play_what_is_submitted(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any
) -> None:
    buffer, env = open_buffer(), rooms(light=True)
    buffer.submit(tickets("rooms", ["lr"] * 8, 4))
    async with running(config("worker", agents=2, workers=2), settings(buffer, env), engine) as fleet:
        await take_all(buffer, 8)
        assert fleet.size() == {"agent": 2, "env_worker": 2}
        stats = await fleet.agent_stats()
        assert sum(each.trials for each in stats) == 32
        assert sum(each.calls for each in await fleet.worker_stats()) > 32


async def test_a_killed_agent_is_replaced_and_its_trials_go_on_without_waiting_for_the_lease(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any
) -> None:
    buffer, env = open_buffer(lease_s=600.0), rooms(step_s=0.05)
    buffer.submit(tickets("rooms", ["l" * 9] * 2, 2))
    async with running(config("worker"), settings(buffer, env), engine) as fleet:

        async def mid_trial() -> bool:
            (stats,) = await fleet.agent_stats()
            return stats.episodes > 0 and stats.in_flight > 0

        await until(mid_trial)
        (victim,) = fleet.handles(Role.AGENT).values()
        await kill(victim)
        await supervised(fleet, Role.AGENT, 1, 1)
        groups = await take_all(buffer, 2)
        counts = Counter(trial.ticket for group in groups for trial in group.trials)
        assert set(counts.values()) == {1}
        assert len(counts) == 4
        (busy,) = await fleet.worker_stats()
        assert busy.reclaimed > 0


async def test_a_killed_env_worker_is_replaced_and_used(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any
) -> None:
    buffer, env = open_buffer(), rooms(light=True)
    async with running(config("worker"), settings(buffer, env), engine) as fleet:
        (victim,) = fleet.handles(Role.ENV_WORKER).values()
        await kill(victim)
        await supervised(fleet, Role.ENV_WORKER, 1, 1)
        buffer.submit(tickets("rooms", ["lr"] * 2, 2))
        await take_all(buffer, 2)


async def test_a_silent_member_counts_as_dead(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any
) -> None:
    async with running(config("local", ping_s=2.0), settings(open_buffer()), engine) as fleet:
        (victim,) = fleet.handles(Role.AGENT).values()
        pid = await asyncio.wait_for(victim.__ray_call__.remote(lambda self: os.getpid()), 20)
        os.kill(pid, signal.SIGSTOP)
        await supervised(fleet, Role.AGENT, 1, 1)


async def test_a_spent_restart_budget_ends_with_the_cause(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any
) -> None:
    async with running(config("local", budget=1), settings(open_buffer()), engine) as fleet:
        (victim,) = fleet.handles(Role.AGENT).values()
        await kill(victim)
        await supervised(fleet, Role.AGENT, 1, 1)
        (victim,) = fleet.handles(Role.AGENT).values()
        await kill(victim)
        with pytest.raises(BudgetError, match=r"agent: 1 restarts are spent .*last cause: .*agent-1 is gone"):
            await supervised(fleet, Role.AGENT, 1, 2)


async def test_what_a_restart_cannot_mend_is_raised_at_the_start(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any, tmp_path: Any
) -> None:
    with pytest.raises(ModelError, match=r"no tokenizer\.json"):
        async with running(config("local"), settings(open_buffer(), model=str(tmp_path)), engine):
            raise AssertionError("it started")


async def test_agents_and_env_workers_come_and_go_while_trials_are_played(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any
) -> None:
    buffer, env = open_buffer(), rooms(step_s=0.01)
    buffer.submit(tickets("rooms", ["l" * 9] * 6, 4))
    async with running(config("worker"), settings(buffer, env), engine) as fleet:
        await fleet.scale(agents=2, env_workers=2)
        assert fleet.size() == {"agent": 2, "env_worker": 2}
        await take_all(buffer, 2)
        await fleet.scale(agents=1, env_workers=1)

        async def fewer() -> bool:
            await fleet.supervise()
            return fleet.size() == {"agent": 1, "env_worker": 1}

        await until(fewer)
        groups = await take_all(buffer, 4)
        assert sum(len(group.trials) for group in groups) == 16
        assert fleet.restarts() == {"agent": 0, "env_worker": 0}
        counters = buffer.counters()
        assert counters.dead_letters == 0
        assert counters.identity_holds


async def test_a_scale_up_that_cannot_be_placed_says_so_and_leaves_the_run_alone(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any
) -> None:
    buffer = open_buffer()
    async with running(config("local"), settings(buffer), engine) as fleet:
        fleet._start_s = 2.0
        fleet._options[Role.AGENT] = {"num_cpus": 64}
        scaling = asyncio.ensure_future(fleet.scale(agents=2))
        while not scaling.done():  # the run is looked after meanwhile
            await fleet.supervise()
            await asyncio.sleep(0.05)
        with pytest.raises(ResourceError, match=r"agent-1 couldn't be placed"):
            scaling.result()
        assert fleet.desired()["agent"] == 1
        await fleet.supervise()
        assert fleet.restarts()["agent"] == 0
        buffer.submit(minesweeper_tickets(1, 2))
        await take_all(buffer, 1)


def test_settings_come_from_the_configuration(settings: MakeSettings, open_buffer: OpenBuffer) -> None:
    from agentmem.config import load_config

    loaded = load_config("lamer-minesweeper")
    made = AgentSettings.of(loaded, run="r", replay_url="u", replay=open_buffer().settings, model="m")
    assert made.env == EnvSettings.named("minesweeper", loaded.env.options)
    assert made.max_turns == 6
    assert made.trials_in_flight == 256
    assert {s.temperature for s in made.sampling.values()} == {1.0}
    assert {s.temperature for s in made.eval_sampling.values()} == {0.7}
    assert made.template_options == {}

    quiet = load_config("lamer-minesweeper-paper")
    made = AgentSettings.of(quiet, run="r", replay_url="u", replay=open_buffer().settings, model="m")
    assert made.template_options == {"enable_thinking": False}

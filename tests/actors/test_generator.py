"""Memory-policy generators on a real cluster: agents are advised, and lose nothing with a generator."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from msgspec.structs import replace

from actors.agent_settings import AdviceRules, AgentSettings
from actors.engine.actor import create as create_engine
from actors.engine.protocol import EngineConfig
from actors.fleet import Fleet, Role
from actors.generator import GeneratorSettings
from actors.rollout.env_wire import EnvSettings
from agentmem.failures import ResourceError
from agentmem.replay import ReplayBuffer
from agentmem.sampling import Sampling
from agentmem.trajectory import Mode, Split, Ticket, Trial
from envs.minesweeper.vocabulary import words
from tests.actors.conftest import MINESWEEPER, START_S, minesweeper_tickets, take_all, until
from tests.actors.test_fleet import SMALL, config, kill
from tests.learner_group.advised import save_memory_model

pytestmark = pytest.mark.usefixtures("cluster")
OpenBuffer = Callable[..., ReplayBuffer]
MakeSettings = Callable[..., AgentSettings]
BRANCHES = ("abstain", "abstain", "generate", "generate")


@pytest.fixture(scope="session")
def memory_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_memory_model(tmp_path_factory.mktemp("memory"), words=words(4, 3))


@pytest.fixture(scope="session")
def memory_engine(cluster: None, memory_model: str) -> Iterator[Any]:
    config = EngineConfig(model=memory_model, kind="torch", max_model_len=128)
    handle = create_engine(config, "memory-0", num_cpus=0)
    ray.get(handle.start.remote(), timeout=START_S)
    yield handle
    ray.kill(handle)


def generating(model: str, timeout_s: float = 60.0) -> GeneratorSettings:
    hint = Sampling(max_tokens=2)
    return GeneratorSettings(
        env=EnvSettings.named("minesweeper", MINESWEEPER),
        model=model,
        context_length=64,
        hints={Split.TRAIN: hint, Split.EVAL: hint},
        timeout_s=timeout_s,
    )


def advised_tickets(groups: int) -> list[Ticket]:
    mode = Mode(method="mempi", episodes=2, memory="none")
    return [
        replace(ticket, mode=replace(mode, advice=BRANCHES[ticket.member]))
        for ticket in minesweeper_tickets(groups, len(BRANCHES))
    ]


@contextlib.asynccontextmanager
async def running(
    settings: AgentSettings,
    generators: GeneratorSettings,
    engine: Any,
    memory: Any | None,
    options: dict[Role, dict[str, Any]] = SMALL,
) -> AsyncIterator[Fleet]:
    fleet = Fleet(config("local"), settings, generators=generators, ray_options=options)
    try:
        await fleet.start()
        await fleet.set_engines({"agent-0": engine})
        if memory is not None:
            await fleet.set_engines({"memory-0": memory}, "memory")
        yield fleet
    finally:
        await fleet.close(1.0)


def decisions(trials: list[Trial]) -> Counter[tuple[str, str, str]]:
    """(branch, who decided, decision) of every advice turn."""
    return Counter((t.mode.advice, turn.policy, turn.actions[0]) for t in trials for turn in t.advice)


async def test_agents_are_advised_by_the_branches_of_their_tickets(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any, memory_engine: Any, memory_model: str
) -> None:
    buffer = open_buffer()
    agent = settings(buffer, advice=AdviceRules(timeout_s=60.0))
    buffer.submit(advised_tickets(6))
    async with running(agent, generating(memory_model), engine, memory_engine) as fleet:
        trials = [trial for group in await take_all(buffer, 6) for trial in group.trials]
        assert fleet.size() == {"agent": 1, "env_worker": 0, "generator": 1}
        (stats,) = await fleet.generator_stats()
        (played,) = await fleet.agent_stats()
        await fleet.scale(generators=2)
        assert fleet.size()["generator"] == 2
    assert decisions(trials) == {
        ("abstain", "memory", "abstain"): 12,
        ("generate", "memory", "generate"): 12,
    }
    assert all(len(trial.advice) == 1 for trial in trials)
    assert (stats.requests, stats.generated, stats.abstained, stats.late) == (24, 12, 12, 0)
    assert (played.advice["generate"], played.advice["abstain"]) == (12, 12)


async def test_a_generator_killed_in_mid_trial_is_replaced_and_no_trial_or_advice_is_lost(
    open_buffer: OpenBuffer,
    settings: MakeSettings,
    engine: Any,
    memory_engine: Any,
    memory_model: str,
    tmp_path: Path,
) -> None:
    buffer = open_buffer()
    agent = settings(buffer, advice=AdviceRules(timeout_s=120.0))
    hold = tmp_path / "generator.answer.hold"
    hold.touch()
    chaos = {"env_vars": {"AGENTMEM_CHAOS": str(tmp_path)}}
    options = {**SMALL, Role.GENERATOR: {"num_cpus": 0, "runtime_env": chaos}}
    async with running(agent, generating(memory_model, 120.0), engine, memory_engine, options) as fleet:
        buffer.submit(advised_tickets(6))
        held = hold.with_suffix(".held")

        async def in_mid_answer() -> bool:
            return held.is_file() and held.stat().st_size > 0

        await until(in_mid_answer)
        os.kill(int(held.read_text()), signal.SIGKILL)

        async def replaced() -> bool:
            await fleet.supervise()
            return fleet.size()["generator"] == 1 and fleet.restarts()["generator"] == 1

        await until(replaced)
        trials = [trial for group in await take_all(buffer, 6) for trial in group.trials]
    assert Counter(trial.ticket for trial in trials).most_common(1)[0][1] == 1
    assert len(trials) == 24
    assert {policy for _, policy, _ in decisions(trials)} == {"memory"}
    assert all(trial.failure is None and trial.attempt == 0 for trial in trials)


async def test_trials_go_on_without_a_hint_while_no_generator_answers(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any, memory_model: str
) -> None:
    buffer = open_buffer()
    agent = settings(buffer, advice=AdviceRules(timeout_s=0.3))
    buffer.submit(advised_tickets(2))
    async with running(agent, generating(memory_model, 0.3), engine, None) as fleet:
        (victim,) = fleet.handles(Role.GENERATOR).values()
        await kill(victim)
        trials = [trial for group in await take_all(buffer, 2) for trial in group.trials]
        (played,) = await fleet.agent_stats()
    assert {(policy, decision) for _, policy, decision in decisions(trials)} == {("", "abstain")}
    assert all(trial.valid for trial in trials)
    assert played.advice["late"] == 8


async def test_without_a_memory_policy_there_are_no_generators_to_scale(
    open_buffer: OpenBuffer, settings: MakeSettings
) -> None:
    fleet = Fleet(config("local"), settings(open_buffer()), ray_options=SMALL)
    assert "generator" not in fleet.size()
    with pytest.raises(ResourceError, match="no memory policy"):
        await asyncio.wait_for(fleet.scale(generators=1), 10)

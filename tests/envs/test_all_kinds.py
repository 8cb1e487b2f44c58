"""Env workers of every kind in one Ray cluster, at the same time: each reaches success."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest
import ray

from actors import env_worker
from actors.env_worker import RayWorker
from actors.rollout.env_session import RemoteEnvs, RemoteSession
from actors.rollout.env_wire import EnvSettings
from actors.rollout.protocols import Outcome
from envs import registry
from envs.alfworld.env import AlfWorld
from envs.alfworld.expert import expert_actions
from envs.base import Instance
from envs.domains import named
from envs.doors import Options as DoorsOptions
from envs.doors.house import rooms_of, rule_of
from envs.interpreter import package_directory
from envs.minesweeper import Options as MineOptions
from envs.minesweeper.instances import opening
from envs.scout import Options as ScoutOptions
from envs.scout.field import cell_words, field_of
from envs.sokoban import Options as SokobanOptions
from envs.sokoban.generator import puzzle
from envs.sokoban.room import MOVES
from tests.envs import test_alfworld, test_lab_db, test_lab_os, test_webarena, test_webshop, test_workarena
from tests.envs.browsing import Move, written
from tests.envs.elsewhere import python_of
from tests.envs.miniwob_solutions import SOLUTIONS
from tests.envs.test_lab_os import root_dir as root_dir
from tests.standins.servicenow import ServiceNow
from tests.standins.webarena import WebArenaSites

LIMIT_S = 240.0
Play = Callable[[RemoteSession], Awaitable[Outcome]]


def scripted(instance: Instance, actions: Sequence[str]) -> Play:
    """These actions, until the episode is over."""

    async def play(session: RemoteSession) -> Outcome:
        await session.reset(instance)
        for action in actions:
            outcome = await session.step(action)
            if outcome.over:
                break
        return outcome

    return play


def browsed(instance: Instance, moves: Sequence[Move]) -> Play:
    """Each move on the page as it is shown then."""

    async def play(session: RemoteSession) -> Outcome:
        shown = (await session.reset(instance)).observation
        for move in moves:
            outcome = await session.step(written(shown, move))
            shown = outcome.observation
        return outcome

    return play


def minesweeper() -> Play:
    instance = registry.instances("minesweeper", {}, "eval")[0]
    mines, _ = opening(MineOptions(), instance)
    size = MineOptions().size
    cells = [cell for cell in range(size * size) if cell not in mines]
    return scripted(instance, [f"({cell // size + 1},{cell % size + 1})" for cell in cells])


def sokoban() -> Play:
    instance = int(registry.instances("sokoban", {}, "eval")[0])
    return scripted(instance, [MOVES[move] for move in puzzle(SokobanOptions(), instance).solution])


def scout() -> Play:
    instance = registry.instances("scout", {}, "eval")[0]
    options = ScoutOptions()
    return scripted(instance, [cell_words(options.size)[field_of(options, instance).treasure]])


def doors() -> Play:
    instance = registry.instances("doors", {}, "eval")[0]
    options = DoorsOptions()
    rule = rule_of(options.rule, options.kind_words, options.door_words)
    return scripted(instance, [rule[room] for room in rooms_of(options, instance)])


def alfworld() -> Play:
    game = test_alfworld.SMALL
    with contextlib.closing(registry.make("alfworld", {})) as env:
        assert isinstance(env, AlfWorld)
        env.reset(options={"instance": game})
        return scripted(game, expert_actions(env))


MIXED: dict[str, Any] = {"domains": {"house": {"env": "doors"}, "scienceworld": {}}}


def mixed() -> Play:
    rule = rule_of(0, DoorsOptions().kind_words, DoorsOptions().door_words)
    house = registry.instances("doors", {}, "eval")[0]
    return scripted(named("house", house), [rule[room] for room in rooms_of(DoorsOptions(), house)])


def scienceworld() -> Play:
    from envs.scienceworld.env import ScienceWorld

    with contextlib.closing(registry.make("scienceworld", {})) as env:
        assert isinstance(env, ScienceWorld)
        env.reset(options={"instance": "power-component/3"})
        assert env.simulator is not None
        return scripted("power-component/3", env.simulator.solution("power-component", 3, "easy"))


def miniwob() -> Play:
    async def play(session: RemoteSession) -> Outcome:
        start = await session.reset("click-test-2/1")
        steps = SOLUTIONS["click-test-2"](start.instruction, start.observation)
        return await session.step(next(steps))

    return play


@pytest.fixture(scope="module")
def sites() -> Iterator[WebArenaSites]:
    with WebArenaSites() as places:
        yield places


@pytest.fixture(scope="module")
def office() -> Iterator[ServiceNow]:
    configs = package_directory("browsergym.workarena", python_of("workarena")) / "data_files"
    with ServiceNow(configs) as instance:
        yield instance


async def test_workers_of_all_kinds_in_one_cluster_each_reach_success(
    cluster: None, sites: WebArenaSites, office: ServiceNow, root_dir: Any
) -> None:
    number, right, _ = test_webarena.RIGHT_AND_WRONG["an address"]
    page, clicks, _ = test_workarena.RIGHT_AND_WRONG["menu"]
    goal, purchase = test_webshop.a_purchase()
    kinds: dict[str, tuple[dict[str, Any], dict[str, str], Play]] = {
        "minesweeper": ({}, {}, minesweeper()),
        "sokoban": ({}, {}, sokoban()),
        "scout": ({}, {}, scout()),
        "doors": ({}, {}, doors()),
        "mixture": (MIXED, {}, mixed()),
        "alfworld": ({}, {}, alfworld()),
        "scienceworld": ({}, {}, scienceworld()),
        "webshop": ({"goals": "human"}, {}, scripted(goal, purchase)),
        "miniwob": ({}, {}, miniwob()),
        "webarena": (test_webarena.QUICK, sites.environment, browsed(number, right)),
        "workarena": (test_workarena.QUICK, office.environment, browsed(page, clicks)),
        "lab-db": ({}, {}, scripted(test_lab_db.CHANGE, test_lab_db.gold(test_lab_db.CHANGE))),
        "lab-os": (
            {"root": str(root_dir)},
            {},
            scripted(test_lab_os.TASK, test_lab_os.gold(test_lab_os.TASK)),
        ),
    }
    assert set(kinds) == set(registry.ENVIRONMENTS)
    workers: list[Any] = []
    try:
        plays = []
        for name, (options, surroundings, play) in kinds.items():
            worker = env_worker.create(
                EnvSettings.named(name, options),
                name,
                slots=1,
                step_timeout_s=LIMIT_S,
                runtime_env={"env_vars": surroundings},
            )
            workers.append(worker)
            plays.append(_play(name, options, worker, play))
        outcomes = await asyncio.wait_for(asyncio.gather(*plays), LIMIT_S)
        assert {
            name: outcome.success for name, outcome in zip(kinds, outcomes, strict=True)
        } == dict.fromkeys(kinds, True)
        await asyncio.wait_for(asyncio.gather(*(worker.close.remote() for worker in workers)), 60)
    finally:
        for worker in workers:
            ray.kill(worker)


async def _play(name: str, options: dict[str, Any], worker: Any, play: Play) -> Outcome:
    envs = RemoteEnvs("agent-0", registry.style(name, options))
    envs.configure({name: RayWorker(worker, 1)})
    session = await envs.open()
    try:
        return await play(session)
    finally:
        await session.close()
        await envs.close()

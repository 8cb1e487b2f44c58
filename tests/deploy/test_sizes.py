"""From a run's numbers to groups of pods."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest

from actors.parts import parts_of
from actors.placement import unplaced
from agentmem.app.deploy.pods import worker_group
from agentmem.app.deploy.settings import ClusterSettings, MachineSettings
from agentmem.app.deploy.sizes import groups
from agentmem.config import load_config


def sizes(overrides: list[str], **cluster: object) -> dict[str, tuple[int, int, int]]:
    """Group -> pods, slots, GPUs of a pod."""
    config = load_config("lamer-minesweeper", overrides)
    found = groups(config, ClusterSettings.model_validate(cluster))
    return {group.name: (group.pods, group.slots, group.gpus) for group in found}


def test_without_gpus_everything_is_on_cpu_machines() -> None:
    assert sizes(["agents.replicas=3"]) == {"env-cpu": (1, 16, 0)}
    many = ["agents.replicas=8", "env.placement=worker", "env.workers=40", "engines.agent.replicas=2"]
    assert sizes(many) == {"env-cpu": (4, 16, 0)}  # 8 + 40 + 2 + 1 of the learner


@pytest.mark.parametrize(
    ("engines", "gpus", "expected"),
    [(4, 1, (1, 4, 4)), (8, 1, (1, 8, 8)), (12, 1, (2, 8, 8)), (4, 0.5, (1, 4, 2)), (3, 4, (2, 2, 8))],
)
def test_engines_fill_gpu_machines(engines: int, gpus: float, expected: tuple[int, int, int]) -> None:
    found = sizes([f"engines.agent.replicas={engines}", f"engines.agent.gpus={gpus}"])
    assert found["engine-gpu"] == expected


def test_a_gpu_pod_has_no_slot_for_anything_but_its_engines_and_ranks() -> None:
    found = sizes(["engines.agent.gpus=1", "learner.ranks=6", "learner.gpus_per_rank=1"])
    assert found["learner-gpu"] == (1, 6, 6)
    assert found["engine-gpu"] == (1, 1, 1)


def test_machines_for_envs_and_engines_are_added_by_the_autoscaler_those_of_ranks_are_not() -> None:
    config = load_config("lamer-minesweeper", ["engines.agent.gpus=1", "learner.gpus_per_rank=1"])
    cluster = ClusterSettings(
        most_env_machines=5, most_engine_machines=3, gpu_machine=MachineSettings(gpus=2)
    )
    env, engine, learner = groups(config, cluster)
    assert (env.pods, env.most) == (1, 5)
    assert (engine.pods, engine.most) == (1, 3)
    assert learner.pods == learner.most


@pytest.mark.parametrize(
    ("recipe", "overrides"),
    [
        ("lamer-minesweeper", ["env.placement=worker", "env.workers=40", "agents.replicas=3"]),
        (
            "lamer-minesweeper",
            ["engines.agent.gpus=2", "engines.agent.replicas=5", "learner.ranks=2"],
        ),
        ("mempi-doors", ["engines.memory.gpus=0.5", "engines.memory.replicas=3", "generators.replicas=4"]),
        ("lamer-sokoban-paper", []),
    ],
)
def test_the_groups_offer_what_parts_ask_for(recipe: str, overrides: list[str]) -> None:
    config = load_config(recipe, [*overrides, "scaling.groups=true"])
    nodes = [
        {"CPU": group.slots, "GPU": group.gpus, **group.offers}
        for group in groups(config, ClusterSettings())
        for _ in range(group.pods)
    ]
    requests = [part.request() for part in parts_of(config).values()]
    assert all(request.custom for request in requests)
    assert unplaced(requests, nodes) == []
    # Nothing but its own kind is placed on a pod with GPUs.
    for node in [n for n in nodes if n["GPU"]]:
        others = [r for r in requests if not r.gpus]
        assert len(unplaced([replace(r, count=1) for r in others], [node])) == len(others)


def test_a_pod_tells_ray_of_its_groups_resources() -> None:
    config = load_config("lamer-minesweeper", ["engines.agent.gpus=1", "env.placement=worker"])
    cluster = ClusterSettings()
    for group in groups(config, cluster):
        start = worker_group(group, cluster, "image")["rayStartParams"]
        (told,) = shlex.split(start["resources"])  # as the shell reads it
        assert json.loads(told) == group.offers


def test_a_memory_policys_generators_and_engines_have_room_too() -> None:
    config = load_config("mempi-doors", ["generators.replicas=20"])
    env = groups(config, ClusterSettings())[0]
    parts = 20 + config.agents.replicas + config.learner.ranks
    parts += sum(config.engines[name].replicas for name in config.served)
    parts += config.env.workers if config.env.placement == "worker" else 0
    assert env.pods == -(-parts // env.slots)

"""From a run's configuration to groups of pods: how many of which kind. Pure.

Ray places actors by CPUs and GPUs. An engine or a rank takes one CPU and its GPUs, anything else one CPU. A
GPU pod tells Ray of exactly as many CPUs as it has engines or ranks, so that nothing else is placed there;
the head tells of none. Without GPUs, everything goes to env-cpu.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agentmem.app.deploy.settings import ClusterSettings, MachineSettings
from agentmem.config import RunConfig
from agentmem.failures import ConfigError

ENV, ENGINE, LEARNER = "env-cpu", "engine-gpu", "learner-gpu"


@dataclass(frozen=True, slots=True)
class Group:
    """`pods` at first, up to `most`. `slots`: CPUs that Ray is told of; `gpus`: of a pod."""

    name: str
    pods: int
    most: int
    slots: int
    gpus: int
    machine: MachineSettings


def groups(config: RunConfig, cluster: ClusterSettings) -> list[Group]:
    """The groups of a run. Raises ConfigError for what no machine can hold."""
    learner = config.learner
    fleet = config.agents.replicas
    if config.env.placement == "worker":
        fleet += config.env.workers
    if config.advised:
        fleet += config.generators.replicas
    found = []
    for name, engine in ((name, config.engines[name]) for name in config.served):
        if engine.gpus == 0:
            fleet += engine.replicas
        else:
            suffix = "" if name == "agent" else f"-{name}"
            found.append(
                _gpu_group(f"engines.{name}.gpus", ENGINE + suffix, engine.replicas, engine.gpus, cluster)
            )
    if learner.gpus_per_rank == 0:
        fleet += learner.ranks
    else:
        found.append(
            _gpu_group("learner.gpus_per_rank", LEARNER, learner.ranks, learner.gpus_per_rank, cluster)
        )
    machine = cluster.cpu_machine
    pods = max(1, math.ceil(fleet / machine.cpus))
    most = max(pods, cluster.most_env_machines)
    return [Group(ENV, pods, most, machine.cpus, 0, machine), *found]


def _gpu_group(setting: str, name: str, parts: int, gpus: float, cluster: ClusterSettings) -> Group:
    machine = cluster.gpu_machine
    if gpus > machine.gpus:
        raise ConfigError(f"{setting} is {gpus:g}: gpu_machine.gpus is {machine.gpus}, and no part spans two")
    each = min(parts, int(machine.gpus / gpus + 1e-9))
    pods = math.ceil(parts / each)
    return Group(name, pods, pods, each, math.ceil(each * gpus - 1e-9), machine)

"""From a run's configuration to groups of pods: how many of which kind. Pure.

Ray places actors by CPUs, GPUs and the custom resource of their kind (`actors/parts.py`). An engine or a rank
takes one CPU and its GPUs, anything else one CPU, and each a unit of its kind's resource, which only pods of
its group offer: so nothing else is placed on a GPU pod, and the autoscaler adds pods of the right group. The
head offers nothing. Without GPUs, everything goes to env-cpu.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from actors.parts import ENGINES, Part, parts_of
from actors.parts import LEARNER as RANKS
from agentmem.app.deploy.settings import ClusterSettings, MachineSettings
from agentmem.config import RunConfig
from agentmem.failures import ConfigError

ENV, ENGINE, LEARNER = "env-cpu", "engine-gpu", "learner-gpu"


@dataclass(frozen=True, slots=True)
class Group:
    """`pods` at first, up to `most`. `slots`: CPUs that Ray is told of; `gpus`, `offers`: of a pod."""

    name: str
    pods: int
    most: int
    slots: int
    gpus: int
    machine: MachineSettings
    offers: Mapping[str, int] = field(default_factory=dict)
    """Custom resources."""


def groups(config: RunConfig, cluster: ClusterSettings) -> list[Group]:
    """The groups of a run. Raises ConfigError for what no machine can hold."""
    here, found = [], []
    for kind, part in parts_of(config).items():
        if part.gpus == 0:
            here.append(part)
        elif kind == RANKS:
            found.append(_gpu_group("learner.gpus_per_rank", LEARNER, part, 1, cluster))
        else:
            policy = kind.removeprefix(ENGINES)
            name = ENGINE if policy == "agent" else f"{ENGINE}-{policy}"
            found.append(
                _gpu_group(f"{part.setting}.gpus", name, part, cluster.most_engine_machines, cluster)
            )
    machine = cluster.cpu_machine
    pods = max(1, math.ceil(sum(part.count for part in here) / machine.cpus))
    most = max(pods, cluster.most_env_machines)
    offers = {part.resource: machine.cpus for part in here}
    return [Group(ENV, pods, most, machine.cpus, 0, machine, offers), *found]


def _gpu_group(setting: str, name: str, part: Part, most: int, cluster: ClusterSettings) -> Group:
    machine, gpus = cluster.gpu_machine, part.gpus
    if gpus > machine.gpus:
        raise ConfigError(f"{setting} is {gpus:g}: gpu_machine.gpus is {machine.gpus}, and no part spans two")
    each = min(part.count, int(machine.gpus / gpus + 1e-9))
    pods = math.ceil(part.count / each)
    of_a_pod = math.ceil(each * gpus - 1e-9)
    return Group(name, pods, max(pods, most), each, of_a_pod, machine, {part.resource: each})

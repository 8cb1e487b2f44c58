"""What a cluster adds to a run's configuration: images, sizes of machines, storage. Strict, like the rest."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentmem.app.deploy.rules import AlertSettings
from agentmem.config.section import Count, NonNegative, Section

Quantity = Annotated[str, Field(pattern=r"^[1-9][0-9]*(Mi|Gi|Ti)$")]
"""Bytes as Kubernetes writes them."""
Name = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=40)]
"""RayJobs have at most 47 characters; what is derived from a name adds up to seven."""


class MachineSettings(Section):
    """One pod of a group, which is to fill a machine."""

    cpus: Count = 16
    memory: Quantity = "32Gi"
    gpus: NonNegative = 0


class RedisSettings(Section):
    """The replay server."""

    image: str = "redis:7.4.2-bookworm"
    exporter_image: str = "oliver006/redis_exporter:v1.67.0"
    memory_factor: Annotated[float, Field(ge=1.2, le=4)] = 1.5
    """Memory of the server against `replay.byte_budget_mib`: indexes, tips, AOF rewrites."""
    storage: Quantity = "100Gi"


class ClusterSettings(Section):
    """Settings of `agentmem deploy render --with KEY=VALUE`."""

    name: Name = "agentmem"
    namespace: Name = "agentmem"
    cpu_image: str = "agentmem:cpu"
    gpu_image: str = "agentmem:cuda"
    ray_version: str = "2.60.0"
    """As in the images (requirements/*.txt)."""
    head: MachineSettings = MachineSettings(cpus=4, memory="16Gi")
    """Runs the driver, and no actors."""
    cpu_machine: MachineSettings = MachineSettings()
    gpu_machine: MachineSettings = MachineSettings(cpus=32, memory="256Gi", gpus=8)
    most_env_machines: Count = 32
    """Up to so many pods of env-cpu the autoscaler may add."""
    most_engine_machines: Count = 8
    """Likewise of a group of engines."""
    machine_wait_s: Count = 1800
    """How long a run waits for pods that the autoscaler adds."""
    idle_s: Count = 300
    """An added pod without work is given back after so long."""
    shared_memory: Quantity = "16Gi"
    """/dev/shm of a pod: Ray's objects, and NCCL."""
    runs_storage: Quantity = "500Gi"
    """Volume of runs (checkpoints, final models), mounted by all pods."""
    retries: NonNegative = 3
    """New clusters that a failed job is given; each goes on from the last checkpoint."""
    keep_s: NonNegative = 3600
    """How long a finished job is kept."""
    monitoring_namespace: Name = "monitoring"
    """Where Prometheus runs: the only one that may scrape."""
    operator_namespace: Name = "kuberay-system"
    """Where the Ray operator runs: it asks the head for a job's state."""
    redis: RedisSettings = RedisSettings()
    alerts: AlertSettings = AlertSettings()


def small(cluster: ClusterSettings) -> ClusterSettings:
    """The same for one small node: a try on CPUs."""
    return cluster.model_copy(
        update={
            "head": MachineSettings(cpus=1, memory="4Gi"),
            "cpu_machine": MachineSettings(cpus=4, memory="8Gi"),
            "most_env_machines": 2,
            "most_engine_machines": 1,
            "shared_memory": "1Gi",
            "runs_storage": "5Gi",
            "redis": cluster.redis.model_copy(update={"storage": "2Gi"}),
        }
    )

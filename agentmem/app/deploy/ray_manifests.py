"""RayJob (a cluster for one run) and RayCluster (one that stays), from a run's configuration.

A RayJob's driver runs on the head, so a lost head costs the cluster: the operator makes a new one (`retries`
of them), and the job's command goes on from the last checkpoint on the volume of runs.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import yaml

from agentmem.app.deploy.pods import PART_OF, Manifest, head_group, submitter, worker_group
from agentmem.app.deploy.settings import ClusterSettings
from agentmem.app.deploy.sizes import groups
from agentmem.config import RunConfig

API = "ray.io/v1"
JOB_COMMAND = "agentmem-job"
"""In the images (deploy/docker/agentmem-job): `agentmem run`, or `--resume last` if there is a run."""
STOP_WAIT_S = 60
"""Between SIGTERM and SIGKILL of a job that is stopped: time for a checkpoint."""
REPLAY_URL = "redis://***@agentmem-redis:6379/0"
TOKEN_SINCE = (2, 52)


def ray_job(config: RunConfig, assignments: Sequence[str], cluster: ClusterSettings) -> Manifest:
    """One run as a job, `assignments` being the `--set`s that made `config` of its recipe."""
    runtime_env = {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_WAIT_S)}}
    return {
        "apiVersion": API,
        "kind": "RayJob",
        "metadata": {"name": cluster.name, "labels": PART_OF},
        "spec": {
            "entrypoint": entrypoint(config, assignments, cluster),
            "submissionMode": "K8sJobMode",
            "submitterPodTemplate": submitter(cluster, image_of(config, cluster)),
            "runtimeEnvYAML": yaml.safe_dump(runtime_env),
            "backoffLimit": cluster.retries,
            "preRunningDeadlineSeconds": 1800,
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": cluster.keep_s,
            "rayClusterSpec": cluster_spec(config, cluster),
        },
    }


def ray_cluster(config: RunConfig, cluster: ClusterSettings) -> Manifest:
    """A cluster of the size that the configuration asks for, without a job."""
    return {
        "apiVersion": API,
        "kind": "RayCluster",
        "metadata": {"name": cluster.name, "labels": PART_OF},
        "spec": cluster_spec(config, cluster),
    }


def cluster_spec(config: RunConfig, cluster: ClusterSettings) -> Manifest:
    """What both have in common."""
    image = image_of(config, cluster)
    return {
        "rayVersion": cluster.ray_version,
        "authOptions": {"mode": "token"},
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {
            "version": "v2",
            "idleTimeoutSeconds": cluster.idle_s,
            "resources": {
                "requests": {"cpu": "250m", "memory": "512Mi"},
                "limits": {"memory": "1Gi"},
            },
        },
        "headGroupSpec": head_group(cluster, image),
        "workerGroupSpecs": [worker_group(group, cluster, image) for group in groups(config, cluster)],
    }


def image_of(config: RunConfig, cluster: ClusterSettings) -> str:
    """All pods run the same image: that of GPUs if anything runs on them."""
    gpus = any(engine.gpus for engine in config.engines.values()) or config.learner.gpus_per_rank
    return cluster.gpu_image if gpus else cluster.cpu_image


def entrypoint(config: RunConfig, assignments: Sequence[str], cluster: ClusterSettings) -> str:
    """The job's command. It holds no secret: `***` stands for what AGENTMEM_REDIS_PASSWORD holds."""
    words = [JOB_COMMAND, config.recipe]
    of_cluster = (
        f"replay.url={REPLAY_URL}",
        "telemetry.backend=ray",
        "scaling.groups=true",
        f"scaling.machine_wait_s={cluster.machine_wait_s}.0",
    )
    for assignment in (*assignments, *of_cluster):
        words += ["--set", assignment]
    return shlex.join(words)


def refused(manifest: dict[str, Any]) -> list[str]:
    """What KubeRay's operator refuses though its schemas allow it. Empty: nothing that is known."""
    spec, kind, found = manifest["spec"], manifest["kind"], []
    longest = 47 if kind == "RayJob" else 53
    if len(manifest["metadata"]["name"]) > longest:
        found.append(f"metadata.name: more than {longest} characters")
    if kind == "RayJob":
        if spec.get("submissionMode") not in ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"):
            found.append(f"spec.submissionMode: {spec.get('submissionMode')!r} is none")
        if spec.get("ttlSecondsAfterFinished") and not spec.get("shutdownAfterJobFinishes"):
            found.append("spec.ttlSecondsAfterFinished: needs shutdownAfterJobFinishes")
        if spec.get("submissionMode") == "SidecarMode" and "submitterPodTemplate" in spec:
            found.append("spec.submitterPodTemplate: not with SidecarMode")
    spec = spec.get("rayClusterSpec", spec)
    if spec.get("authOptions", {}).get("mode") == "token":
        version = tuple(int(part) for part in str(spec.get("rayVersion", "0")).split(".")[:2])
        if version < TOKEN_SINCE:
            found.append(f"rayVersion: {spec.get('rayVersion')}: tokens need 2.52")
    v2 = spec.get("autoscalerOptions", {}).get("version") == "v2"
    for group in (spec["headGroupSpec"], *spec.get("workerGroupSpecs", [])):
        name = group.get("groupName", "head")
        if "resources" in group and {"num-cpus", "num-gpus", "resources"} & set(group["rayStartParams"]):
            found.append(f"{name}: resources both of the group and in rayStartParams")
        if v2 and group["template"]["spec"].get("restartPolicy", "Never") != "Never":
            found.append(f"{name}: version 2 of the autoscaler needs restartPolicy Never")
        if group.get("minReplicas", 0) > group.get("maxReplicas", 0):
            found.append(f"{name}: minReplicas above maxReplicas")
    head = spec["headGroupSpec"]["template"]["spec"]["containers"][0]
    if "gcsFaultToleranceOptions" in spec:
        taken = {each["name"] for each in head.get("env", [])} & {"REDIS_PASSWORD", "RAY_REDIS_ADDRESS"}
        found += [f"head: {name} beside gcsFaultToleranceOptions" for name in sorted(taken)]
    return found

"""Pod templates of a Ray cluster: head, worker groups, and the pod that submits a job.

- Nothing runs as root, holds a capability, or has a token of the API (KubeRay gives the head one if it
  scales). The code is in the image; a pod installs nothing.
- Ports have the names by which the monitors find them. Every pod carries `PART_OF`, which is what policies
  and monitors select.
- The replay server's password comes from a Secret that isn't rendered here, under a name of ours: KubeRay
  refuses a head with REDIS_PASSWORD beside fault tolerance.
"""

from __future__ import annotations

import json
from typing import Any

from agentmem.app.deploy.settings import ClusterSettings, MachineSettings
from agentmem.app.deploy.sizes import Group

Manifest = dict[str, Any]

USER = 10001
"""As in the images."""
PART_OF = {"app.kubernetes.io/part-of": "agentmem"}
RUNS = "/runs"
SECRET = "agentmem-redis"
"""Made by hand; its key is `password`."""
CLAIM = "agentmem-runs"
METRICS_PORTS = {"metrics": 8080, "as-metrics": 44217, "dash-metrics": 44227}
HEAD_PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001}

LOCKED: Manifest = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
POD_SECURITY: Manifest = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def head_group(cluster: ClusterSettings, image: str) -> Manifest:
    """The head: GCS, dashboard, the job's driver; no actors."""
    container = _container("ray-head", image, cluster.head, cluster)
    container["ports"] = _ports({**HEAD_PORTS, **METRICS_PORTS})
    return {
        "rayStartParams": {"dashboard-host": "0.0.0.0", "num-cpus": "0"},
        "template": _template(container, cluster),
    }


def worker_group(group: Group, cluster: ClusterSettings, image: str) -> Manifest:
    """Pods of one kind."""
    container = _container("ray-worker", image, group.machine, cluster, gpus=group.gpus)
    container["ports"] = _ports({"metrics": METRICS_PORTS["metrics"]})
    start = {"num-cpus": str(group.slots)}
    if group.gpus:
        start["num-gpus"] = str(group.gpus)
    start["resources"] = json.dumps(json.dumps(dict(group.offers)))  # quoted for the shell that KubeRay uses
    spec: Manifest = {
        "groupName": group.name,
        "replicas": group.pods,
        "minReplicas": group.pods,
        "maxReplicas": group.most,
        "rayStartParams": start,
        "template": _template(container, cluster, gpu=group.gpus > 0),
    }
    if group.most > group.pods:
        spec["idleTimeoutSeconds"] = cluster.idle_s
    spec["template"]["spec"]["automountServiceAccountToken"] = False
    return spec


def submitter(cluster: ClusterSettings, image: str) -> Manifest:
    """The pod that asks the head to run the job, and ends with its status."""
    return {
        "metadata": {"labels": PART_OF},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": POD_SECURITY,
            "containers": [
                {
                    "name": "ray-job-submitter",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "securityContext": LOCKED,
                    "resources": {
                        "requests": {"cpu": "250m", "memory": "512Mi"},
                        "limits": {"memory": "1Gi"},
                    },
                }
            ],
        },
    }


def _container(
    name: str, image: str, machine: MachineSettings, cluster: ClusterSettings, gpus: int = 0
) -> Manifest:
    limits = {"cpu": str(machine.cpus), "memory": machine.memory}
    if gpus:
        limits["nvidia.com/gpu"] = str(gpus)
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "securityContext": LOCKED,
        "env": [
            {"name": "AGENTMEM_RUNS", "value": f"{RUNS}/{cluster.name}"},
            {"name": "AGENTMEM_CACHE", "value": f"{RUNS}/cache"},
            {"name": "HF_HOME", "value": f"{RUNS}/cache/huggingface"},
            {"name": "OMP_NUM_THREADS", "value": "1"},
            {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"},
            {
                "name": "AGENTMEM_REDIS_PASSWORD",
                "valueFrom": {"secretKeyRef": {"name": SECRET, "key": "password"}},
            },
        ],
        "resources": {"requests": dict(limits), "limits": limits},
        "volumeMounts": [
            {"name": "runs", "mountPath": RUNS},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }


def _template(container: Manifest, cluster: ClusterSettings, *, gpu: bool = False) -> Manifest:
    spec: Manifest = {
        "restartPolicy": "Never",  # what version 2 of the autoscaler asks for; KubeRay replaces the pod
        "securityContext": POD_SECURITY,
        "terminationGracePeriodSeconds": 60,
        "containers": [container],
        "volumes": [
            {"name": "runs", "persistentVolumeClaim": {"claimName": CLAIM}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": cluster.shared_memory}},
        ],
    }
    if gpu:
        spec["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    return {"metadata": {"labels": PART_OF}, "spec": spec}


def _ports(ports: dict[str, int]) -> list[Manifest]:
    return [{"name": name, "containerPort": number} for name, number in ports.items()]

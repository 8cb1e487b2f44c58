"""The replay server on Kubernetes: one Redis with an append-only file on a volume, and its exporter.

It never evicts (AgentMem refuses a server that does), asks for a password, and has bytes for the run's budget
times `memory_factor`. The password is in a Secret that is made by hand and reaches the server by a file.
"""

from __future__ import annotations

import math

from agentmem.app.deploy.pods import LOCKED, PART_OF, SECRET, Manifest
from agentmem.app.deploy.settings import ClusterSettings
from agentmem.config import RunConfig

NAME = "agentmem-redis"
REDIS_USER = 999
"""Of the official image."""
LABELS = {"app.kubernetes.io/name": NAME, **PART_OF}
PORT, EXPORTER_PORT = 6379, 9121
START = """\
umask 077
{ cat /etc/redis/redis.conf; printf 'requirepass %s\\n' "$AGENTMEM_REDIS_PASSWORD"; } > /run/redis/redis.conf
exec redis-server /run/redis/redis.conf
"""
PROBE = 'REDISCLI_AUTH="$AGENTMEM_REDIS_PASSWORD" redis-cli ping | grep -q PONG'


def redis(config: RunConfig, cluster: ClusterSettings) -> list[Manifest]:
    """ConfigMap, headless Service and StatefulSet."""
    mib = config.replay.byte_budget_mib
    held = math.ceil(mib * cluster.redis.memory_factor) + 64
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "labels": LABELS},
            "data": {"redis.conf": _settings(held)},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": NAME, "labels": LABELS},
            "spec": {
                "clusterIP": "None",
                "selector": LABELS,
                "ports": [
                    {"name": "redis", "port": PORT, "targetPort": "redis"},
                    {"name": "metrics", "port": EXPORTER_PORT, "targetPort": "metrics"},
                ],
            },
        },
        _stateful_set(cluster, held),
    ]


def _settings(held_mib: int) -> str:
    lines = (
        "bind * -::*",
        f"port {PORT}",
        "protected-mode yes",
        "dir /data",
        "appendonly yes",
        "appendfsync everysec",
        'save ""',
        "maxmemory-policy noeviction",
        f"maxmemory {held_mib}mb",
    )
    return "\n".join(lines) + "\n"


def _stateful_set(cluster: ClusterSettings, held_mib: int) -> Manifest:
    # A rewrite of the append-only file copies pages that change meanwhile: half as much again.
    memory = f"{math.ceil(held_mib * 1.5)}Mi"
    password = {
        "name": "AGENTMEM_REDIS_PASSWORD",
        "valueFrom": {"secretKeyRef": {"name": SECRET, "key": "password"}},
    }
    probe = {"exec": {"command": ["sh", "-ec", PROBE]}, "periodSeconds": 5, "timeoutSeconds": 5}
    server = {
        "name": "redis",
        "image": cluster.redis.image,
        "command": ["sh", "-ec", START],
        "env": [password],
        "ports": [{"name": "redis", "containerPort": PORT}],
        "readinessProbe": probe,
        "startupProbe": {**probe, "failureThreshold": 120},
        "securityContext": {**LOCKED, "readOnlyRootFilesystem": True},
        "resources": {"requests": {"cpu": "1", "memory": memory}, "limits": {"memory": memory}},
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "settings", "mountPath": "/etc/redis"},
            {"name": "private", "mountPath": "/run/redis"},
        ],
    }
    exporter = {
        "name": "exporter",
        "image": cluster.redis.exporter_image,
        "env": [
            {"name": "REDIS_ADDR", "value": f"redis://127.0.0.1:{PORT}"},
            {**password, "name": "REDIS_PASSWORD"},
        ],
        "ports": [{"name": "metrics", "containerPort": EXPORTER_PORT}],
        "securityContext": {**LOCKED, "readOnlyRootFilesystem": True},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": NAME, "labels": LABELS},
        "spec": {
            "serviceName": NAME,
            "replicas": 1,
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {
                    "automountServiceAccountToken": False,
                    "terminationGracePeriodSeconds": 60,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": REDIS_USER,
                        "runAsGroup": REDIS_USER,
                        "fsGroup": REDIS_USER,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [server, exporter],
                    "volumes": [
                        {"name": "settings", "configMap": {"name": NAME}},
                        {"name": "private", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
                    ],
                },
            },
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": cluster.redis.storage}},
                    },
                }
            ],
        },
    }

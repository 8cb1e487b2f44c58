"""All files that `agentmem deploy render` writes, as text by path. The same settings give the same text.

grafana/*.json, grafana/ray/*.json      dashboards, for either prefix
prometheus/rules.yml, rules-ray.yml     alert rules, likewise
kuberay/base                            Redis, volume of runs, monitoring, policies
kuberay/overlays/dev                    base, small, and a RayJob on CPUs
kuberay/overlays/gpu                    base and a RayJob on GPUs
kuberay/overlays/gpu-cluster            base and a RayCluster of the same size, that stays
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agentmem.app.deploy.dashboards import dashboards
from agentmem.app.deploy.monitoring import dashboard_maps, monitors, network_policies, prometheus_rule
from agentmem.app.deploy.pods import CLAIM, PART_OF, Manifest
from agentmem.app.deploy.ray_manifests import ray_cluster, ray_job, refused
from agentmem.app.deploy.redis_manifests import NAME as REDIS
from agentmem.app.deploy.redis_manifests import redis
from agentmem.app.deploy.rules import HEAD, rules_text
from agentmem.app.deploy.settings import ClusterSettings, small
from agentmem.config import RunConfig
from agentmem.failures import ConfigError


@dataclass(frozen=True, slots=True)
class Plan:
    """A run's configuration, and the `--set`s that made it of its recipe."""

    config: RunConfig
    assignments: tuple[str, ...] = ()


def rendered(gpu: Plan, dev: Plan, cluster: ClusterSettings) -> dict[str, str]:
    """Path below `deploy/` -> text. Raises ConfigError for what the operator would refuse."""
    files = {f"grafana/{name}": text for name, text in dashboards().items()}
    files |= {f"grafana/ray/{name}": text for name, text in dashboards("ray_").items()}
    files["prometheus/rules.yml"] = rules_text("", cluster.alerts)
    files["prometheus/rules-ray.yml"] = rules_text("ray_", cluster.alerts)
    base = {
        "redis.yaml": redis(gpu.config, cluster),
        "runs.yaml": [_runs(cluster)],
        "monitors.yaml": monitors(),
        "rules.yaml": [prometheus_rule(cluster)],
        "dashboards.yaml": dashboard_maps(),
        "network.yaml": network_policies(cluster),
    }
    files |= _folder("kuberay/base", base, cluster)
    job = ray_job(gpu.config, gpu.assignments, cluster)
    files |= _folder("kuberay/overlays/gpu", {"rayjob.yaml": [job]}, cluster, on="../../base")
    stays = ray_cluster(gpu.config, cluster)
    files |= _folder("kuberay/overlays/gpu-cluster", {"raycluster.yaml": [stays]}, cluster, on="../../base")
    one_node = small(cluster)
    tried = ray_job(dev.config, dev.assignments, one_node)
    files |= _folder(
        "kuberay/overlays/dev",
        {"rayjob.yaml": [tried]},
        cluster,
        on="../../base",
        patches=_small(dev.config, one_node),
    )
    for manifest in (job, stays, tried):
        if problems := refused(manifest):
            raise ConfigError(f"{manifest['kind']} {manifest['metadata']['name']}: {problems[0]}")
    return files


def write(files: dict[str, str], out: Path) -> None:
    """Write them below a directory. Raises ConfigError if that can't be done."""
    for name, text in files.items():
        path = out / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"--out {out}: can't write {path}: {error.strerror}") from error


def _folder(
    folder: str,
    contents: dict[str, list[Manifest]],
    cluster: ClusterSettings,
    *,
    on: str | None = None,
    patches: Sequence[Manifest] = (),
) -> dict[str, str]:
    kustomization: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": cluster.namespace,
        "resources": [*([on] if on else []), *contents],
    }
    if patches:
        kustomization["patches"] = [{"path": "small.yaml"}]
        contents = {**contents, "small.yaml": list(patches)}
    texts = {f"{folder}/{name}": HEAD + _text(manifests) for name, manifests in contents.items()}
    return {**texts, f"{folder}/kustomization.yaml": HEAD + _text([kustomization])}


class _Dumper(yaml.SafeDumper):
    """Long texts as blocks, and no references: a reader of a manifest knows neither."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _string)


def _text(manifests: Sequence[Manifest]) -> str:
    return yaml.dump_all(manifests, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100_000)


def _runs(cluster: ClusterSettings) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "labels": PART_OF},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": cluster.runs_storage}},
        },
    }


def _small(config: RunConfig, cluster: ClusterSettings) -> list[Manifest]:
    """What changes of the base for one small node: storage, and Redis for the small run's budget."""
    settings, _, stateful = redis(config, cluster)
    server = stateful["spec"]["template"]["spec"]["containers"][0]
    memory = server["resources"]["limits"]["memory"]
    resources = {"requests": {"cpu": "100m", "memory": memory}, "limits": {"memory": memory}}
    runs = _runs(cluster)
    runs["spec"]["accessModes"] = ["ReadWriteOnce"]
    return [
        runs,
        settings,
        {
            "apiVersion": stateful["apiVersion"],
            "kind": stateful["kind"],
            "metadata": {"name": REDIS},
            "spec": {
                "template": {"spec": {"containers": [{"name": server["name"], "resources": resources}]}},
                "volumeClaimTemplates": stateful["spec"]["volumeClaimTemplates"],
            },
        },
    ]

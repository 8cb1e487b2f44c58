"""Monitoring on Kubernetes, for kube-prometheus-stack: what is scraped, alerts, dashboards, who may ask."""

from __future__ import annotations

import json

from agentmem.app.deploy.dashboards import dashboards
from agentmem.app.deploy.pods import HEAD_PORTS, METRICS_PORTS, PART_OF, Manifest
from agentmem.app.deploy.redis_manifests import EXPORTER_PORT, LABELS, PORT
from agentmem.app.deploy.rules import rules
from agentmem.app.deploy.settings import ClusterSettings

PREFIX = "ray_"
RELEASE = {"release": "prometheus"}
"""By which kube-prometheus-stack, as it is installed by default, finds what is for it."""
MONITORING_API = "monitoring.coreos.com/v1"
DROPPED = "otel_scope_.*|SessionName|Version"
"""Labels that say nothing. WorkerId stays: without it the series of two workers would be one."""


def monitors() -> list[Manifest]:
    """PodMonitor of Ray's endpoints, ServiceMonitor of Redis's exporter."""
    labels = {**PART_OF, **RELEASE}
    relabel = [
        {"sourceLabels": ["__meta_kubernetes_pod_label_ray_io_cluster"], "targetLabel": "ray_io_cluster"},
        {"sourceLabels": ["__meta_kubernetes_pod_label_ray_io_group"], "targetLabel": "ray_io_group"},
    ]
    endpoint = {
        "interval": "15s",
        "relabelings": relabel,
        "metricRelabelings": [{"action": "labeldrop", "regex": DROPPED}],
    }
    return [
        {
            "apiVersion": MONITORING_API,
            "kind": "PodMonitor",
            "metadata": {"name": "agentmem-ray", "labels": labels},
            "spec": {
                "jobLabel": "ray.io/cluster",
                "selector": {
                    "matchLabels": PART_OF,
                    "matchExpressions": [
                        {"key": "ray.io/node-type", "operator": "In", "values": ["head", "worker"]}
                    ],
                },
                "podMetricsEndpoints": [{"port": port, **endpoint} for port in METRICS_PORTS],
            },
        },
        {
            "apiVersion": MONITORING_API,
            "kind": "ServiceMonitor",
            "metadata": {"name": "agentmem-redis", "labels": labels},
            "spec": {
                "selector": {"matchLabels": LABELS},
                "endpoints": [{"port": "metrics", "interval": "15s"}],
            },
        },
    ]


def prometheus_rule(cluster: ClusterSettings) -> Manifest:
    """The alert rules, for Ray's prefix."""
    return {
        "apiVersion": MONITORING_API,
        "kind": "PrometheusRule",
        "metadata": {"name": "agentmem", "labels": {**PART_OF, **RELEASE}},
        "spec": rules(PREFIX, cluster.alerts),
    }


def dashboard_maps() -> list[Manifest]:
    """A ConfigMap for each dashboard: all in one would be near the limit of 1 MiB."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"agentmem-dashboard-{name.removesuffix('.json')}",
                "labels": {**PART_OF, "grafana_dashboard": "1"},
            },
            "data": {f"agentmem-{name}": json.dumps(json.loads(text), ensure_ascii=False) + "\n"},
        }
        for name, text in dashboards(PREFIX).items()
    ]


def network_policies(cluster: ClusterSettings) -> list[Manifest]:
    """Who may open a connection to what. Ray's ports carry code: only the cluster's own pods reach them."""
    scraping = [{"namespaceSelector": {"matchLabels": _namespace(cluster.monitoring_namespace)}}]
    operator = [{"namespaceSelector": {"matchLabels": _namespace(cluster.operator_namespace)}}]
    own = [{"podSelector": {"matchLabels": PART_OF}}]
    head = {**PART_OF, "ray.io/node-type": "head"}
    ray = {
        "matchLabels": PART_OF,
        "matchExpressions": [{"key": "ray.io/node-type", "operator": "Exists"}],
    }
    return [
        _policy("agentmem-ray", ray, [{"from": own}]),
        _policy("agentmem-ray-metrics", ray, [{"from": scraping, "ports": _tcp(*METRICS_PORTS.values())}]),
        _policy(
            "agentmem-ray-operator",
            {"matchLabels": head},
            [{"from": operator, "ports": _tcp(HEAD_PORTS["dashboard"])}],
        ),
        _policy(
            "agentmem-redis",
            {"matchLabels": LABELS},
            [{"from": own, "ports": _tcp(PORT)}, {"from": scraping, "ports": _tcp(EXPORTER_PORT)}],
        ),
    ]


def _policy(name: str, pods: Manifest, ingress: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "labels": PART_OF},
        "spec": {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": ingress},
    }


def _namespace(name: str) -> dict[str, str]:
    return {"kubernetes.io/metadata.name": name}


def _tcp(*ports: int) -> list[Manifest]:
    return [{"protocol": "TCP", "port": port} for port in ports]

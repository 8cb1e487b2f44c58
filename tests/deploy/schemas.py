"""What reads our files, as schemas: Grafana's, those of Kubernetes' own kinds, and of two operators."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft7Validator, Draft202012Validator

SCHEMAS = Path(os.environ.get("AGENTMEM_DATA", "")) / "schemas"
CRDS = {
    "RayJob": "kuberay/ray.io_rayjobs.yaml",
    "RayCluster": "kuberay/ray.io_rayclusters.yaml",
    "PodMonitor": "prometheus-operator/monitoring.coreos.com_podmonitors.yaml",
    "ServiceMonitor": "prometheus-operator/monitoring.coreos.com_servicemonitors.yaml",
    "PrometheusRule": "prometheus-operator/monitoring.coreos.com_prometheusrules.yaml",
}
Schema = dict[str, Any]


def strict(schema: Any) -> Any:
    """A CRD's schema as JSON schema in which a name that isn't known is an error."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    out = {key: strict(value) for key, value in schema.items() if not key.startswith("x-kubernetes-")}
    free = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if isinstance(out.get("properties"), dict) and not free:
        out["additionalProperties"] = False
    if out.pop("nullable", False) and isinstance(out.get("type"), str):
        out["type"] = [out["type"], "null"]
    return out


@cache
def crd(kind: str) -> Draft202012Validator:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    tree = yaml.load((SCHEMAS / CRDS[kind]).read_text(encoding="utf-8"), Loader=loader)
    (version,) = [each for each in tree["spec"]["versions"] if each["name"] == "v1"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    return Draft202012Validator(schema)


def problems(manifest: Schema) -> list[str]:
    """What Kubernetes, or the operator's schema, has against a manifest."""
    import kubernetes_validate

    if manifest["kind"] in CRDS:
        found = crd(manifest["kind"]).iter_errors(manifest)
        return [f"{'.'.join(map(str, error.path))}: {error.message}" for error in found]
    try:
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
    except kubernetes_validate.ValidationError as error:
        return [str(error).splitlines()[0]]
    return []


@cache
def grafana(name: str, definition: str) -> Draft7Validator:
    text = (SCHEMAS / "grafana" / f"{name}.jsonschema.json").read_text(encoding="utf-8")
    return Draft7Validator({**json.loads(text), "$ref": f"#/definitions/{definition}"})


def dashboard_problems(board: Schema) -> list[str]:
    """What Grafana's schemas have against a dashboard: as a whole, its panels' options, its queries."""
    checks: list[tuple[str, Draft7Validator, Any]] = [("", grafana("dashboard", "Dashboard"), board)]
    for panel in board["panels"]:
        where = f"panel {panel['title']}"
        if panel["type"] == "row":
            checks.append((where, grafana("dashboard", "RowPanel"), panel))
            continue
        checks.append((where, grafana("dashboard", "Panel"), panel))
        checks.append((f"{where}, options", grafana(panel["type"], "Options"), panel["options"]))
        query = grafana("prometheus", "dataquery")
        checks.extend((f"{where}, query", query, target) for target in panel["targets"])
    return [
        f"{where}: {'.'.join(map(str, error.path))}: {error.message}"
        for where, validator, value in checks
        for error in validator.iter_errors(value)
    ]

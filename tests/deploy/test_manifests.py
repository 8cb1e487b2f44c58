"""Manifests: committed as rendered; schemas take them; typos and what operators refuse are found."""

from __future__ import annotations

import copy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from agentmem.app.cli import app
from agentmem.app.deploy.ray_manifests import refused
from agentmem.app.deploy_cli import default_files
from tests.deploy.schemas import crd, problems

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
FILES = default_files()
OVERLAYS = ("dev", "gpu", "gpu-cluster")


def parsed(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def manifests(folder: str) -> list[dict[str, Any]]:
    """All of a folder but kustomize's own file."""
    return [
        manifest
        for name, text in FILES.items()
        if name.startswith(f"kuberay/{folder}/") and not name.endswith(("kustomization.yaml", "small.yaml"))
        for manifest in parsed(text)
    ]


def one(kind: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    (manifest,) = [each for each in found if each["kind"] == kind]
    return copy.deepcopy(manifest)


def test_what_is_committed_is_what_is_rendered() -> None:
    for name, text in FILES.items():
        assert (DEPLOY / name).read_text(encoding="utf-8") == text, f"{name}: run `agentmem deploy render`"
    there = {str(path.relative_to(DEPLOY)) for path in (DEPLOY / "kuberay").rglob("*.yaml")}
    assert there == {name for name in FILES if name.startswith("kuberay/")}


@pytest.mark.parametrize("folder", ["base", *(f"overlays/{name}" for name in OVERLAYS)])
def test_kubernetes_and_the_operators_take_every_manifest(folder: str) -> None:
    found = manifests(folder)
    assert found
    for manifest in found:
        assert problems(manifest) == [], manifest["metadata"]["name"]


if shutil.which("kubectl"):  # no part of the project: where it isn't, there is no such test

    @pytest.mark.parametrize("overlay", OVERLAYS)
    def test_an_overlay_builds_and_what_it_builds_is_valid(overlay: str) -> None:
        done = subprocess.run(
            ["kubectl", "kustomize", str(DEPLOY / "kuberay" / "overlays" / overlay)],
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        built = parsed(done.stdout)
        assert len(built) == len(manifests("base")) + 1
        for manifest in built:
            assert manifest["metadata"]["namespace"] == "agentmem"
            assert problems(manifest) == [], manifest["metadata"]["name"]
        claim, server = one("PersistentVolumeClaim", built), one("StatefulSet", built)
        small = overlay == "dev"
        assert (claim["spec"]["accessModes"] == ["ReadWriteOnce"]) == small
        storage = server["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"]
        assert (storage == "2Gi") == small
        assert [each["name"] for each in server["spec"]["template"]["spec"]["containers"]] == [
            "redis",
            "exporter",
        ]


@pytest.mark.parametrize(
    ("path", "typo", "named"),
    [
        ("spec.backoffLimit", "backofLimit", "backofLimit"),
        ("spec.rayClusterSpec.workerGroupSpecs.0.maxReplicas", "maxReplica", "maxReplica"),
        ("spec.rayClusterSpec.headGroupSpec.template.spec.containers.0.image", "img", "img"),
        ("spec.submitterPodTemplate.spec.restartPolicy", "restartPolcy", "restartPolcy"),
    ],
)
def test_a_typo_in_a_rayjob_is_found(path: str, typo: str, named: str) -> None:
    manifest = one("RayJob", manifests("overlays/gpu"))
    node: Any = manifest
    *parents, last = path.split(".")
    for part in parents:
        node = node[int(part)] if part.isdigit() else node[part]
    node[typo] = node.pop(last)
    assert any(named in problem for problem in problems(manifest))


def test_a_wrong_type_in_a_rayjob_is_found() -> None:
    manifest = one("RayJob", manifests("overlays/gpu"))
    manifest["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["rayStartParams"]["num-cpus"] = 16
    assert any("16 is not of type 'string'" in problem for problem in problems(manifest))


@pytest.mark.parametrize("kind", ["StatefulSet", "Service", "NetworkPolicy", "ConfigMap"])
def test_a_typo_in_a_kind_of_kubernetes_is_found(kind: str) -> None:
    manifest = copy.deepcopy(next(each for each in manifests("base") if each["kind"] == kind))
    body = "data" if kind == "ConfigMap" else "spec"
    manifest[body + "s"] = manifest.pop(body)
    assert problems(manifest)


@pytest.mark.parametrize("kind", ["PodMonitor", "ServiceMonitor", "PrometheusRule"])
def test_a_typo_in_what_prometheus_operator_reads_is_found(kind: str) -> None:
    manifest = one(kind, manifests("base"))
    first = next(iter(manifest["spec"]))
    manifest["spec"][first + "s_"] = manifest["spec"].pop(first)
    assert list(crd(kind).iter_errors(manifest))


REFUSED: list[tuple[str, Any, str]] = [
    ("metadata.name", "a" * 48, "more than 47 characters"),
    ("spec.submissionMode", "Foo", "'Foo' is none"),
    ("spec.shutdownAfterJobFinishes", False, "needs shutdownAfterJobFinishes"),
    ("spec.submissionMode", "SidecarMode", "not with SidecarMode"),
    ("spec.rayClusterSpec.rayVersion", "2.9.0", "tokens need 2.52"),
    ("spec.rayClusterSpec.workerGroupSpecs.0.minReplicas", 40, "minReplicas above maxReplicas"),
    (
        "spec.rayClusterSpec.workerGroupSpecs.0.resources",
        {"CPU": "4"},
        "both of the group and in rayStartParams",
    ),
    (
        "spec.rayClusterSpec.workerGroupSpecs.0.template.spec.restartPolicy",
        "Always",
        "needs restartPolicy Never",
    ),
]


@pytest.mark.parametrize(("path", "value", "why"), REFUSED)
def test_what_the_operator_refuses_beyond_its_schema_is_found(path: str, value: Any, why: str) -> None:
    manifest = one("RayJob", manifests("overlays/gpu"))
    assert refused(manifest) == []
    node: Any = manifest
    *parents, last = path.split(".")
    for part in parents:
        node = node[int(part)] if part.isdigit() else node[part]
    node[last] = value
    assert any(why in line for line in refused(manifest))


def test_a_password_for_redis_beside_fault_tolerance_is_found() -> None:
    manifest = one("RayCluster", manifests("overlays/gpu-cluster"))
    manifest["spec"]["gcsFaultToleranceOptions"] = {"redisAddress": "redis:6379"}
    assert refused(manifest) == []
    head = manifest["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    head["env"].append({"name": "REDIS_PASSWORD", "value": "x"})
    assert refused(manifest) == ["head: REDIS_PASSWORD beside gcsFaultToleranceOptions"]


def pods(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Pod templates, wherever they are."""
    out = []

    def visit(node: Any) -> None:
        if isinstance(node, dict):
            if "containers" in node:
                out.append(node)
            for value in node.values():
                visit(value)
        elif isinstance(node, list):
            for value in node:
                visit(value)

    visit(found)
    return out


@pytest.mark.parametrize("folder", ["base", *(f"overlays/{name}" for name in OVERLAYS)])
def test_no_pod_runs_as_root_or_holds_a_capability(folder: str) -> None:
    for pod in pods(manifests(folder)):
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] > 0
        for container in pod["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]


def test_no_secret_is_rendered() -> None:
    for name in FILES:
        if name.startswith("kuberay/"):
            assert all(manifest["kind"] != "Secret" for manifest in parsed(FILES[name]))
            assert "stringData" not in FILES[name]
    job = one("RayJob", manifests("overlays/gpu"))
    assert "redis://***@agentmem-redis:6379/0" in job["spec"]["entrypoint"]


def test_metrics_ports_are_open_to_prometheus_alone() -> None:
    policies = {
        each["metadata"]["name"]: each for each in manifests("base") if each["kind"] == "NetworkPolicy"
    }
    (rule,) = policies["agentmem-ray-metrics"]["spec"]["ingress"]
    assert {port["port"] for port in rule["ports"]} == {8080, 44217, 44227}
    (source,) = rule["from"]
    assert source["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "monitoring"}
    (operator,) = policies["agentmem-ray-operator"]["spec"]["ingress"]
    assert [port["port"] for port in operator["ports"]] == [8265]


def test_monitors_find_the_ports_that_pods_have() -> None:
    head = one("RayJob", manifests("overlays/dev"))["spec"]["rayClusterSpec"]["headGroupSpec"]
    names = {port["name"] for port in head["template"]["spec"]["containers"][0]["ports"]}
    endpoints = one("PodMonitor", manifests("base"))["spec"]["podMetricsEndpoints"]
    assert {each["port"] for each in endpoints} <= names
    for each in endpoints:
        assert "WorkerId" not in each["metricRelabelings"][0]["regex"]
    labels = one("PodMonitor", manifests("base"))["spec"]["selector"]["matchLabels"].items()
    assert labels <= head["template"]["metadata"]["labels"].items()
    service = one("Service", manifests("base"))
    monitor = one("ServiceMonitor", manifests("base"))
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert {each["port"] for each in monitor["spec"]["endpoints"]} <= {
        p["name"] for p in service["spec"]["ports"]
    }


def test_the_rendered_versions_are_the_locked_ones() -> None:
    job = one("RayJob", manifests("overlays/gpu"))
    lock = (ROOT / "requirements" / "cuda.txt").read_text(encoding="utf-8").splitlines()
    assert f"ray=={job['spec']['rayClusterSpec']['rayVersion']}" in lock


def test_redis_has_room_for_the_runs_budget(tmp_path: Path) -> None:
    files = default_files(overrides=["replay.byte_budget_mib=10000"])
    config, _, server = parsed(files["kuberay/base/redis.yaml"])
    assert "maxmemory 15064mb" in config["data"]["redis.conf"]
    assert "maxmemory-policy noeviction" in config["data"]["redis.conf"]
    limits = server["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert int(limits["memory"].removesuffix("Mi")) > 15064


def render(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["deploy", "render", *arguments])


def test_the_command_renders_a_run_of_ones_own(tmp_path: Path) -> None:
    done = render(
        "lamer-minesweeper-paper", "--set", "engines.agent.replicas=12", "--with", "name=mines",
        "--with", "gpu_image=registry.example/agentmem:7", "--out", str(tmp_path),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (job,) = parsed((tmp_path / "kuberay/overlays/gpu/rayjob.yaml").read_text())
    assert job["metadata"]["name"] == "mines"
    words = job["spec"]["entrypoint"].split()
    assert words[:4] == ["agentmem-job", "lamer-minesweeper-paper", "--set", "engines.agent.replicas=12"]
    (group,) = [
        g for g in job["spec"]["rayClusterSpec"]["workerGroupSpecs"] if g["groupName"] == "engine-gpu"
    ]
    assert group["replicas"] == 2
    assert "registry.example/agentmem:7" in str(group)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--with", "gpu_machin.gpus=4"], "unknown key 'gpu_machin'"),
        (["--with", "alerts.stalled=soon"], "alerts.stalled is 'soon'"),
        (["--with", "name=A_B"], "name is 'A_B'"),
        (["--with", "gpu_machine.gpus=1", "--set", "engines.agent.gpus=2"], "engines.agent.gpus is 2"),
        (["--set", "learner.ranks=0"], "learner.ranks is 0"),
        (["no-such-recipe"], "unknown recipe 'no-such-recipe'"),
    ],
)
def test_a_wrong_setting_is_one_clear_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = render(*arguments, "--out", str(tmp_path / "out"))
    assert message in str(done.exception)
    assert not (tmp_path / "out").exists()

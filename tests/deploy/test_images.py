"""Images, compose file and the job's command: pinned, not root, and what they name is there."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "deploy" / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))


def instructions(name: str) -> list[tuple[str, str]]:
    text = (DOCKER / name).read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split()[0], line.split(None, 1)[1]) for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("accel", ["cpu", "cuda"])
def test_an_image_takes_the_lock_and_is_not_root(accel: str) -> None:
    found = instructions(f"Dockerfile.{accel}")
    for base in [words for what, words in found if what == "FROM"]:
        assert re.fullmatch(r"[\w./-]+:[\w.-]*\d+\.\d+[\w.-]*( AS \w+)?", base), base
    installs = [words for what, words in found if what == "RUN" and "pip install" in words]
    assert all("--no-deps" in words for words in installs)
    assert f"-r /src/requirements/{accel}.txt" in installs[0]
    users = [words for what, words in found if what == "USER"]
    assert users == ["10001:10001"]
    last = max(i for i, (what, _) in enumerate(found) if what == "RUN")
    assert last < [what for what, _ in found].index("USER")


@pytest.mark.parametrize("accel", ["cpu", "cuda"])
def test_what_an_image_copies_is_there_and_is_sent_to_the_builder(accel: str) -> None:
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sent = [line[1:] for line in ignore if line.startswith("!")]
    for what, words in instructions(f"Dockerfile.{accel}"):
        if what == "COPY" and "--from" not in words:
            *sources, _ = [word for word in words.split() if not word.startswith("--")]
            for source in sources:
                assert (ROOT / source).exists(), source
                assert any(source == path or source.startswith(path + "/") for path in sent), source


def test_compose_pins_images_publishes_to_this_machine_alone_and_mounts_what_is_there() -> None:
    for name, service in COMPOSE["services"].items():
        image = service["image"]
        assert image == "agentmem:cpu" or re.search(r":v?\d+\.\d+\.\d+", image), image
        assert service["cap_drop"] == ["ALL"]
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name}: {port}"
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (ROOT / "deploy" / source).exists(), source
            else:
                assert source in COMPOSE["volumes"]
    build = COMPOSE["services"]["ray"]["build"]
    assert (ROOT / "deploy" / build["context"] / build["dockerfile"]).is_file()


def test_compose_holds_no_password() -> None:
    for service in COMPOSE["services"].values():
        for name, value in service.get("environment", {}).items():
            if "PASSWORD" in name:
                assert re.fullmatch(r"\$\{\w+:\?write it into \.env\}", value), name


def test_grafana_of_compose_finds_its_dashboards_and_prometheus() -> None:
    folder = ROOT / "deploy" / "grafana" / "provisioning"
    (provider,) = yaml.safe_load((folder / "dashboards" / "agentmem.yaml").read_text())["providers"]
    mounts = dict(v.split(":")[:2][::-1] for v in COMPOSE["services"]["grafana"]["volumes"])
    boards = ROOT / "deploy" / mounts[provider["options"]["path"]]
    assert len(list(boards.glob("*.json"))) == 5
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"


@pytest.mark.parametrize("name", ["prometheus.yml", "compose.yml"])
def test_promtool_takes_the_configurations(name: str, tmp_path: Path) -> None:
    folder = ROOT / "deploy" / "prometheus"
    text = (folder / name).read_text(encoding="utf-8").replace("/etc/agentmem", str(folder))
    (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["promtool", "check", "config", name],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def job(tmp_path: Path) -> Any:
    """Runs `agentmem-job` with a program in agentmem's place that prints what it is asked."""
    program = tmp_path / "bin" / "agentmem"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)

    def run(*arguments: str, runs: Path | None = tmp_path / "runs") -> subprocess.CompletedProcess[str]:
        env = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
        if runs is not None:
            env["AGENTMEM_RUNS"] = str(runs)
        return subprocess.run(
            [str(DOCKER / "agentmem-job"), *arguments],
            env=env,
            text=True,
            capture_output=True,
            timeout=20,
            check=False,
        )

    return run


def test_a_job_starts_a_run_and_goes_on_with_it_when_it_is_started_again(job: Any, tmp_path: Path) -> None:
    first = job("lamer-minesweeper", "--set", "seed=1")
    assert first.stdout.splitlines()[-1] == "run lamer-minesweeper --set seed=1"
    made = tmp_path / "runs" / "lamer-minesweeper-20260101-000000-abcdef"
    made.mkdir()
    assert job("lamer-minesweeper").stdout.splitlines()[-1] == "run lamer-minesweeper"  # died before it began
    (made / "config.yaml").write_text("")
    again = job("lamer-minesweeper", "--set", "seed=1")
    assert again.stdout.splitlines()[-1] == "run lamer-minesweeper --set seed=1 --resume last"


def test_a_job_without_a_directory_for_runs_is_refused(job: Any) -> None:
    done = job("lamer-minesweeper", runs=None)
    assert done.returncode != 0
    assert "set AGENTMEM_RUNS" in done.stderr

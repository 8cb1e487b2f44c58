"""What loading AgentMem costs, and what it does without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "transformers", "ray", "vllm", "deepspeed", "redis", "numpy", "pydantic")
REPORT = f"import json, sys; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"


def python(executable: str | Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [str(executable), *arguments], env=env, cwd="/", text=True, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with nothing in it."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    return folder / "bin" / "python"


def test_agentmem_imports_where_nothing_is_installed(bare: Path) -> None:
    started = time.perf_counter()
    done = python(bare, "-c", "import agentmem; " + REPORT)
    print(f"import agentmem: {time.perf_counter() - started:.2f} s with the start of Python")
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize(
    ("module", "may_load"),
    [
        ("agentmem", ()),
        ("agentmem.failures", ()),
        ("agentmem.trajectory", ()),
        ("agentmem.config", ("pydantic",)),
        ("agentmem.chat", ()),
        ("agentmem.app.cli", ()),
        ("agentmem.app.models.resolve", ("pydantic",)),
        ("envs.registry", ("numpy",)),
    ],
)
def test_heavy_packages_load_where_they_are_used(module: str, may_load: tuple[str, ...]) -> None:
    done = python(sys.executable, "-c", f"import {module}; " + REPORT)
    assert set(json.loads(done.stdout)) <= set(may_load)


def test_the_command_line_answers() -> None:
    done = python(sys.executable, "-m", "agentmem", "--help")
    for command in ("run", "recipes", "config", "show", "vectors", "doctor", "submit"):
        assert command in done.stdout

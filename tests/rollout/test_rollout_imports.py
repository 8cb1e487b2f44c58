"""What a process needs to play: no engine, no Ray, no server's client, for the loop and for env workers."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("ray", "vllm", "deepspeed", "torch", "transformers", "tokenizers", "redis")


@pytest.mark.parametrize(
    "modules",
    [
        "actors.rollout.agent_loop, actors.rollout.env_session, actors.rollout.policy",
        "actors.rollout.env_host",
        "actors.env_worker",
        "actors.agent",
        "actors.fleet",
    ],
)
def test_importing_takes_no_heavy_package(modules: str) -> None:
    script = f"import sys, {modules}; print([m for m in {HEAVY} if m in sys.modules])"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"

"""A small memory policy for Doors, and one service of it for all tests that don't end it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from envs.doors import Options
from envs.doors.compact import vocabulary
from tests.advice.serving import Service, start
from tests.learner_group.advised import save_memory_model

SMALL = (
    *("--recipe", "mempi-doors"),
    *("--set", "engines.memory.backend=torch"),
    *("--set", "evaluation.sampling.temperature=1.0"),
    *("--set", "policies.memory.context_length=64"),
)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    words = vocabulary(Options(kinds=8, rooms=3, doors=4, rule=2, format="compact"))
    return save_memory_model(tmp_path_factory.mktemp("memory"), words=words)


@pytest.fixture(scope="session")
def service(model: str) -> Iterator[Service]:
    started = start(model, *SMALL, "--port", "0", "--longest-body", "4096", "--most", "64")
    try:
        started.read()
        yield started
    finally:
        started.end()

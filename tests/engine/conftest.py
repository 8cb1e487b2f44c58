"""One engine for each test class: starting vLLM takes many seconds."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from actors.engine.factory import build_engine
from actors.engine.protocol import EngineConfig
from agentmem.weights.files import FilesSender
from tests.engine import tiny
from tests.engine.behaviours import World


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    wanted = request.cls
    folder: Path = tmp_path_factory.mktemp(wanted.kind)
    model = tiny.make_model(folder / "model", tied=wanted.tied)
    config = EngineConfig(model=str(folder / "model"), kind=wanted.kind, request_s=60.0, **wanted.settings)
    engine = build_engine(config, name="e0")
    await engine.start()
    yield World(engine, model, FilesSender(folder / "weights"))
    await engine.close()

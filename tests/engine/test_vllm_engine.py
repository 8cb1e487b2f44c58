"""vLLM behaves as every engine; an untied head, blocks small enough for the prefix cache to hit."""

import pytest

from tests.engine.behaviours import EngineBehaviours

pytest.importorskip("vllm")


@pytest.mark.asyncio(loop_scope="class")
class TestVllmEngine(EngineBehaviours):
    kind = "vllm"
    many = 400

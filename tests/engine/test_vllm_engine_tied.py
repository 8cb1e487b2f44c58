"""vLLM behaves as every engine; a tied head, whose packed copy vLLM's own reload forgets; steps overlap."""

from typing import Any, ClassVar

import pytest

from tests.engine.behaviours import EngineBehaviours

pytest.importorskip("vllm")


@pytest.mark.asyncio(loop_scope="class")
class TestVllmEngineTied(EngineBehaviours):
    kind = "vllm"
    many = 400
    tied = True
    settings: ClassVar[dict[str, Any]] = {"async_scheduling": True, "max_num_seqs": 16}

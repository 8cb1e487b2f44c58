"""The PyTorch engine behaves as every engine."""

import pytest

from tests.engine.behaviours import EngineBehaviours


@pytest.mark.asyncio(loop_scope="class")
class TestTorchEngine(EngineBehaviours):
    kind = "torch"


@pytest.mark.asyncio(loop_scope="class")
class TestTorchEngineTied(EngineBehaviours):
    kind = "torch"
    tied = True

"""From a configuration to an engine: the registry of engine kinds and of weight receivers."""

from __future__ import annotations

from actors.engine.protocol import Core, EngineConfig
from actors.engine.step_engine import StepEngine
from agentmem.failures import ConfigError
from agentmem.weights.base import Receiver
from agentmem.weights.files import FilesReceiver


def build_engine(config: EngineConfig, *, name: str = "engine", initial_version: int = 0) -> StepEngine:
    """An engine that isn't started yet."""
    core: Core
    receivers: dict[str, Receiver] = {"files": FilesReceiver(by_path=config.tensor_parallel_size > 1)}
    if config.kind == "vllm":
        from actors.engine.vllm_engine import VllmCore, VllmTransferReceiver

        core = VllmCore(config)
        if config.weight_transfer:
            receivers[config.weight_transfer] = VllmTransferReceiver(core)
    elif config.kind == "torch":
        from actors.engine.torch_engine import TorchCore

        core = TorchCore(config)
    else:
        raise ConfigError(f"engine kind is {config.kind!r}: must be vllm or torch")
    return StepEngine(core, config, receivers, name=name, initial_version=initial_version)

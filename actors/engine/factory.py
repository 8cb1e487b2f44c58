"""From a configuration to an engine: the registry of engine kinds and of weight receivers."""

from __future__ import annotations

from typing import Any

from actors.engine.protocol import Core, EngineConfig
from actors.engine.step_engine import StepEngine
from actors.engine.transfer import IpcReceiver, NcclReceiver
from agentmem.failures import ConfigError
from agentmem.weights.base import Receiver
from agentmem.weights.files import FilesReceiver


def build_engine(config: EngineConfig, *, name: str = "engine", initial_version: int = 0) -> StepEngine:
    """An engine that isn't started yet."""
    core: Core
    receivers: dict[str, Receiver] = {"files": FilesReceiver(by_path=config.tensor_parallel_size > 1)}
    if config.kind == "vllm":
        from actors.engine.vllm_engine import VllmCore

        core = vllm = VllmCore(config)
        engine = StepEngine(core, config, receivers, name=name, initial_version=initial_version)

        def rpc(method: str, **kwargs: object) -> list[Any]:
            return engine.between_steps(lambda: vllm.rpc(method, **kwargs), config.request_s)

        if config.weight_transfer == "nccl":
            receivers["nccl"] = NcclReceiver(rpc)
        elif config.weight_transfer == "ipc":
            receivers["ipc"] = IpcReceiver(rpc)
        elif config.weight_transfer:
            raise ConfigError(f"weight_transfer is {config.weight_transfer!r}: must be nccl, ipc or empty")
        return engine
    if config.kind == "torch":
        from actors.engine.torch_engine import TorchCore

        core = TorchCore(config)
        return StepEngine(core, config, receivers, name=name, initial_version=initial_version)
    raise ConfigError(f"engine kind is {config.kind!r}: must be vllm or torch")

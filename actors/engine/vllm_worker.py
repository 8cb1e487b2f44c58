"""What vLLM's workers do for us: mixed into the worker class by vLLM (`worker_extension_cls`).

Loading goes through vLLM's own reload, which repacks CPU weights and keeps GPU storage in place. It forgets
one thing: on CPU a head that shares the embedding's tensor keeps its old packed copy. So heads are packed again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class _Collector:
    """Stands in for the model as the target of a transfer: keeps the tensors instead of loading them."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        for name, tensor in weights:
            # The transport reuses its buffers; host memory is the only place that surely has room.
            self.tensors[name] = tensor.detach().to("cpu", copy=True)


class WorkerExtension:
    """Methods that the engine calls by name on every worker."""

    def agentmem_load(
        self,
        *,
        tensors: Mapping[str, torch.Tensor] | None = None,
        path: str | None = None,
        staged: bool = False,
    ) -> None:
        """Replace all weights; from one source exactly."""
        worker: Any = self
        if staged:
            tensors = worker._agentmem_staged
            worker._agentmem_staged = {}
        if tensors is not None:
            worker.reload_weights(weights_iterator=iter(tensors.items()))
        else:
            worker.reload_weights(weights_path=path)
        repack_heads(worker.model_runner.model)

    def agentmem_stage(self, update_info: Mapping[str, Any]) -> None:
        """Begin to receive a transfer beside the model, on a thread: the worker goes on serving."""
        worker: Any = self
        engine = worker.weight_transfer_engine
        collector = _Collector()
        state: dict[str, Any] = {"error": None}

        def receive() -> None:
            try:
                engine.set_weight_update_target(collector, worker.model_config)
                engine.update_weights(dict(update_info))
                worker._agentmem_staged = collector.tensors
            except Exception as error:
                state["error"] = f"{type(error).__name__}: {error}"
            finally:
                engine.reset_weight_update_target()

        thread = threading.Thread(target=receive, name="agentmem-stage", daemon=True)
        worker._agentmem_stage = (thread, state)
        thread.start()

    def agentmem_wait_staged(self, seconds: float) -> str | None:
        """Whether the transfer has ended: "" yes, a reason if it failed, None if it still runs."""
        worker: Any = self
        thread, state = worker._agentmem_stage
        thread.join(seconds)
        return None if thread.is_alive() else (state["error"] or "")


def repack_heads(model: torch.nn.Module) -> None:
    """Pack again each CPU layer that keeps its plain weight (embeddings and heads, tied or not)."""
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if hasattr(module, "cpu_linear") and weight is not None and weight.numel():
            from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

            dispatch_cpu_unquantized_gemm(module, remove_weight=False)

"""What vLLM's workers do for us: mixed into the worker class by vLLM (`worker_extension_cls`).

Loading goes through vLLM's own reload, which repacks CPU weights and keeps GPU storage in place. It forgets
one thing: on CPU a head that shares the embedding's tensor keeps its old packed copy. So heads are packed
again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class _Collector:
    """Stands in for the model as the target of a transfer: keeps the tensors instead of loading them."""

    def __init__(self, tensors: dict[str, torch.Tensor]) -> None:
        self.tensors = tensors

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
        staged: int | None = None,
    ) -> None:
        """Replace all weights; from one source exactly."""
        worker: Any = self
        if staged is not None:
            tensors = worker._agentmem_sets[staged]
            # The set that was loaded before is put back if this update fails; others are never asked for
            # again.
            keep = (staged, getattr(worker, "_agentmem_loaded", staged))
            worker._agentmem_sets = {n: kept for n, kept in worker._agentmem_sets.items() if n in keep}
            worker._agentmem_loaded = staged
        if tensors is not None:
            worker.reload_weights(weights_iterator=iter(tensors.items()))
        else:
            worker.reload_weights(weights_path=path)
        repack_heads(worker.model_runner.model)

    def agentmem_stage(self, staged: int, update_infos: Sequence[Mapping[str, Any]]) -> None:
        """Begin to receive buckets into set `staged` beside the model, on a thread: the worker goes on
        serving.
        """
        worker: Any = self
        engine = worker.weight_transfer_engine
        if not hasattr(worker, "_agentmem_sets"):
            worker._agentmem_sets = {}
        collector = _Collector(worker._agentmem_sets.setdefault(staged, {}))
        failures: list[str] = []

        def receive() -> None:
            try:
                engine.set_weight_update_target(collector, worker.model_config)
                for info in update_infos:
                    engine.update_weights(dict(info))
            except Exception as error:
                failures.append(f"{type(error).__name__}: {error}")
            finally:
                engine.reset_weight_update_target()

        thread = threading.Thread(target=receive, name="agentmem-stage", daemon=True)
        worker._agentmem_stage = (thread, failures)
        thread.start()

    def agentmem_staged(self) -> str | None:
        """How the transfer stands: None while it runs, "" when it has ended, else why it failed."""
        worker: Any = self
        thread, failures = worker._agentmem_stage
        if thread.is_alive():
            return None
        return failures[0] if failures else ""


def repack_heads(model: torch.nn.Module) -> None:
    """Pack again each CPU layer that keeps its plain weight (embeddings and heads, tied or not)."""
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if hasattr(module, "cpu_linear") and weight is not None and weight.numel():
            from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

            dispatch_cpu_unquantized_gemm(module, remove_weight=False)

"""Weights over CUDA IPC: learner and engine share a GPU, so only handles travel.

Sender: `IpcWire` exports each tensor of a bucket as a handle and gives names, shapes and handles to
`deliver`, which calls the engines and returns when they have copied; only then may the tensors change. The
exported tensors are kept alive until then, since a handle alone keeps nothing alive. Receiver: vLLM's
weight-transfer API.

Unlike NCCL the handles are data, so a bucket is delivered by a call; the manifest itself carries no
addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from agentmem.weights.base import TensorMeta

if TYPE_CHECKING:
    import torch

Handle = dict[str, tuple[Any, ...]]
"""For each GPU (by UUID) the arguments that rebuild the tensor there."""
Export = Callable[["torch.Tensor"], Handle]
Deliver = Callable[[dict[str, Any]], None]


def export_cuda(tensor: torch.Tensor) -> Handle:
    """The IPC handle of a CUDA tensor."""
    import torch
    from torch.multiprocessing.reductions import reduce_tensor

    if not tensor.is_cuda:
        raise ValueError("CUDA IPC shares GPU memory: the tensor is not on a GPU")
    _, arguments = reduce_tensor(tensor)  # type: ignore[no-untyped-call]
    uuid = str(torch.cuda.get_device_properties(tensor.device).uuid)
    return {uuid: arguments}


class IpcWire:
    """The sender's end."""

    def __init__(self, deliver: Deliver, export: Export = export_cuda) -> None:
        self._deliver, self._export = deliver, export

    def send(self, bucket: Sequence[torch.Tensor], metas: Sequence[TensorMeta]) -> None:
        # `bucket` is held by the caller until `deliver` returns.
        self._deliver(
            {
                "names": [meta.name for meta in metas],
                "dtype_names": [meta.dtype for meta in metas],
                "shapes": [list(meta.shape) for meta in metas],
                "ipc_handles": [self._export(tensor) for tensor in bucket],
            }
        )

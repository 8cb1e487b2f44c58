"""What NCCL and CUDA IPC have in common: one order of tensors, cut into buckets, sent between two deadlines.

The learner is rank 0 of a group with all workers of the engines. Its side of a push, for every bucket:

    gather   all learner ranks materialise the bucket's tensors, in the manifest's order (a ZeRO-3 or FSDP
             gather is a collective of the learner; it must not interleave with the send);
    send     rank 0 alone hands the bucket to the wire.

The engines are told (`WeightUpdate`) before the first bucket leaves and receive beside their models. Both
sides take names, shapes, dtypes and bucket borders from the manifest, so they can't cut the stream
differently.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from agentmem.failures import WeightSyncError
from agentmem.weights.base import Phase, TensorMeta, WeightUpdate

if TYPE_CHECKING:
    import torch

BUCKET_BYTES = 256 * 2**20


class Wire(Protocol):
    """The rank-0 end of a transport: hands one bucket over; may block until the receivers have it."""

    def send(self, bucket: Sequence[torch.Tensor], metas: Sequence[TensorMeta]) -> None: ...


class Source(Protocol):
    """The learner's weights. `gather` is called on every learner rank with the same names, in one order."""

    def gather(self, names: Sequence[str]) -> Mapping[str, torch.Tensor]:
        """Full tensors; only rank 0's are sent, other ranks may return an empty mapping."""
        ...


def bucketed(update: WeightUpdate) -> Iterator[tuple[TensorMeta, ...]]:
    """The manifest's tensors, bucket by bucket."""
    if sum(update.buckets) != len(update.tensors):
        raise ValueError(
            f"manifest: buckets hold {sum(update.buckets)} tensors, {len(update.tensors)} are listed"
        )
    at = 0
    for count in update.buckets:
        yield update.tensors[at : at + count]
        at += count


def send_buckets(update: WeightUpdate, source: Source, wire: Wire | None) -> None:
    """Run the learner's side on one rank; `wire` is None on all ranks but 0.

    Raises `WeightSyncError` within the transfer deadline, also when the wire never returns; the wire's group
    is unusable then and has to be opened anew.
    """
    deadline = time.monotonic() + update.deadlines.transfer_s
    for number, metas in enumerate(bucketed(update)):
        tensors = source.gather([meta.name for meta in metas])
        if wire is None:
            continue
        bucket = [_checked(meta, tensors) for meta in metas]
        what = f"bucket {number + 1} of {len(update.buckets)}"
        within_deadline(partial(wire.send, bucket, metas), deadline - time.monotonic(), what)


def _checked(meta: TensorMeta, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    tensor = tensors.get(meta.name)
    if tensor is None:
        raise ValueError(f"the source did not give {meta.name}")
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tuple(tensor.shape) != meta.shape or dtype != meta.dtype:
        raise ValueError(
            f"the source gave {meta.name} as {dtype}{tuple(tensor.shape)}, "
            f"the manifest says {meta.dtype}{meta.shape}"
        )
    return tensor.detach().contiguous()


def within_deadline(work: Callable[[], None], seconds: float, what: str) -> None:
    """Run blocking work that can't be cancelled; leave it alone at the deadline."""
    failure: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="weights-send", daemon=True)
    thread.start()
    thread.join(max(seconds, 0.0))
    if thread.is_alive():
        raise WeightSyncError("all", Phase.TRANSFER.value, f"{what} was not taken within the deadline")
    if failure:
        error = failure[0]
        raise WeightSyncError(
            "all", Phase.TRANSFER.value, f"{what}: {type(error).__name__}: {error}"
        ) from error

"""The protocol of the collective transports, with gloo standing in for NCCL: order, metadata, deadlines."""

import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from agentmem.failures import WeightSyncError
from agentmem.weights.base import Deadlines, TensorMeta, WeightUpdate, buckets_of, describe
from agentmem.weights.collective import bucketed, send_buckets
from agentmem.weights.ipc import IpcWire, export_cuda
from agentmem.weights.nccl import Meeting, NcclWire, transfer_buckets, transfer_init

SHAPES = {"embed": (64, 8), "layer.0": (8, 8), "layer.1": (8, 8), "head": (64, 8), "norm": (8,)}


def weights() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


def manifest(transfer_s: float = 20.0, limit: int = 600) -> WeightUpdate:
    metas = describe(weights())
    return WeightUpdate(
        version=1,
        transport="nccl",
        location="tcp://127.0.0.1:1234/2/1",
        tensors=metas,
        buckets=buckets_of(metas, limit),
        deadlines=Deadlines(transfer_s=transfer_s),
    )


class Whole:
    """A source that holds full tensors, and remembers what was asked for."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def gather(self, names: Sequence[str]) -> Mapping[str, torch.Tensor]:
        self.asked.append(list(names))
        return {name: tensor for name, tensor in weights().items() if name in names}


class Gloo:
    """A communicator over a gloo group, in place of NCCL's."""

    def broadcast(self, tensor: torch.Tensor, src: int) -> None:
        dist.broadcast(tensor, src)


def _join(rank: int, store: str, world: int) -> None:
    timeout = timedelta(seconds=20)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=timeout
    )


def _push(rank: int, store: str, results: str) -> None:
    """Rank 0 learns, ranks 1 and 2 are workers that only know what the manifest tells them."""
    _join(rank, store, 3)
    update = manifest()
    if rank == 0:
        send_buckets(update, Whole(), NcclWire(Gloo()))
    else:
        received = {}
        for info in transfer_buckets(update):
            for name, dtype, shape in zip(info["names"], info["dtype_names"], info["shapes"], strict=True):
                received[name] = torch.empty(shape, dtype=getattr(torch, dtype))
                dist.broadcast(received[name], 0)
        torch.save(received, f"{results}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def test_every_worker_gets_every_tensor_bit_for_bit(tmp_path: Path) -> None:
    mp.spawn(_push, args=(str(tmp_path / "store"), str(tmp_path)), nprocs=3)
    for rank in (1, 2):
        received = torch.load(tmp_path / f"{rank}.pt")
        assert list(received) == list(SHAPES)
        assert all(torch.equal(received[name], tensor) for name, tensor in weights().items())


class Sharded:
    """A source whose gather is a collective of the learner's ranks, as with ZeRO-3."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def gather(self, names: Sequence[str]) -> Mapping[str, torch.Tensor]:
        full = {}
        for name in names:
            rank = dist.get_rank(self._group)
            shard = weights()[name].flatten().chunk(2)[rank]
            parts = [torch.empty_like(shard) for _ in range(2)]
            dist.all_gather(parts, shard, group=self._group)
            full[name] = torch.cat(parts).view(SHAPES[name])
        return full


def _push_sharded(rank: int, store: str, results: str) -> None:
    """Ranks 0 and 1 learn together, rank 2 is the worker; rank 0's send is slow."""
    _join(rank, store, 3)
    learners, wire_group = dist.new_group([0, 1]), dist.new_group([0, 2])
    update = manifest()

    class Slow:
        def broadcast(self, tensor: torch.Tensor, src: int) -> None:
            threading.Event().wait(0.05)
            dist.broadcast(tensor, src, group=wire_group)

    if rank < 2:
        send_buckets(update, Sharded(learners), NcclWire(Slow()) if rank == 0 else None)
    else:
        received = {meta.name: torch.empty(meta.shape) for meta in update.tensors}
        for tensor in received.values():
            dist.broadcast(tensor, 0, group=wire_group)
        torch.save(received, f"{results}/2.pt")
    dist.barrier()
    dist.destroy_process_group()


def test_gather_and_send_do_not_interleave_into_a_deadlock(tmp_path: Path) -> None:
    mp.spawn(_push_sharded, args=(str(tmp_path / "store"), str(tmp_path)), nprocs=3)
    received = torch.load(tmp_path / "2.pt")
    assert all(torch.equal(received[name], tensor) for name, tensor in weights().items())


def test_all_ranks_gather_in_the_order_of_the_manifest() -> None:
    first, other = Whole(), Whole()
    sent: list[str] = []

    class Wire:
        def send(self, bucket: Sequence[torch.Tensor], metas: Sequence[TensorMeta]) -> None:
            sent.extend(meta.name for meta in metas)

    send_buckets(manifest(), first, Wire())
    send_buckets(manifest(), other, None)
    assert first.asked == other.asked
    assert len(first.asked) > 2
    assert sent == list(SHAPES)


def test_a_wire_that_never_returns_is_a_typed_error_within_the_deadline() -> None:
    class Dead:
        def send(self, bucket: Sequence[torch.Tensor], metas: Sequence[TensorMeta]) -> None:
            threading.Event().wait(30)

    with pytest.raises(WeightSyncError, match=r"phase transfer: bucket 1 of .* deadline"):
        send_buckets(manifest(transfer_s=0.2), Whole(), Dead())


def test_a_tensor_that_is_not_gathered_is_refused_before_it_is_sent() -> None:
    class Empty:
        def gather(self, names: Sequence[str]) -> Mapping[str, torch.Tensor]:
            return {name: torch.empty(0) for name in names}

    sent: list[int] = []

    class Wire:
        def send(self, bucket: Sequence[torch.Tensor], metas: Sequence[TensorMeta]) -> None:
            sent.append(len(bucket))

    with pytest.raises(ValueError, match="the manifest says"):
        send_buckets(manifest(), Empty(), Wire())
    assert sent == []


def test_manifest_whose_buckets_do_not_add_up_is_refused() -> None:
    wrong = WeightUpdate(version=1, transport="nccl", tensors=describe(weights()), buckets=(1, 1))
    with pytest.raises(ValueError, match="buckets hold 2 tensors, 5 are listed"):
        list(bucketed(wrong))


def test_meeting_point_round_trip() -> None:
    meeting = Meeting("10.0.0.1", 4711, 5, 3)
    assert Meeting.parse(str(meeting)) == meeting
    assert transfer_init(manifest())["rank_offset"] == 1
    for bad in ("10.0.0.1:4711", "tcp://h:1/2", "tcp://h:1/2/2"):
        with pytest.raises(ValueError, match="location is"):
            Meeting.parse(bad)


def test_ipc_delivers_handles_and_refuses_host_memory() -> None:
    delivered: list[dict[str, Any]] = []
    wire = IpcWire(delivered.append, export=lambda tensor: {"gpu": (tuple(tensor.shape),)})
    send_buckets(manifest(), Whole(), wire)
    assert [name for bucket in delivered for name in bucket["names"]] == list(SHAPES)
    assert delivered[0]["ipc_handles"][0] == {"gpu": (SHAPES["embed"],)}
    with pytest.raises(ValueError, match="not on a GPU"):
        export_cuda(torch.zeros(1))

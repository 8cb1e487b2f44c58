"""The engine's side of the collective transports, on workers of our own: staged beside the model, bounded
waits.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from actors.engine.transfer import IpcReceiver, NcclReceiver
from actors.engine.vllm_worker import WorkerExtension
from agentmem.weights.base import Deadlines, WeightUpdate, describe

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(4)}


class TransferEngine:
    """What vLLM's worker has: receives into whatever its target is."""

    def __init__(self) -> None:
        self.target: Any = None
        self.wait: Callable[[], object] = lambda: None

    def set_weight_update_target(self, model: Any, config: Any) -> None:
        self.target = model

    def reset_weight_update_target(self) -> None:
        self.target = None

    def update_weights(self, info: dict[str, Any]) -> None:
        self.wait()
        buffer = torch.empty(0)
        for name, shape in zip(info["names"], info["shapes"], strict=True):
            assert tuple(shape) == tuple(TENSORS[name].shape)
            buffer = TENSORS[name].clone()
            self.target.load_weights([(name, buffer)])
            # The transport reuses its buffer as soon as the target has taken it.
            buffer.zero_()


class Worker(WorkerExtension):
    def __init__(self) -> None:
        self.weight_transfer_engine = TransferEngine()
        self.model_config = None
        self.joined: list[dict[str, Any]] = []
        self.loaded: list[dict[str, torch.Tensor]] = []
        self.model_runner = self
        self.model = torch.nn.Module()

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        self.joined.append(init_info)

    def reload_weights(self, weights_iterator: Any) -> None:
        self.loaded.append(dict(weights_iterator))


class Workers:
    def __init__(self, count: int = 2) -> None:
        self.all = [Worker() for _ in range(count)]

    def __call__(self, method: str, **kwargs: Any) -> list[Any]:
        return [getattr(worker, method)(**kwargs) for worker in self.all]


def manifest(version: int, transport: str, transfer_s: float = 5.0) -> WeightUpdate:
    return WeightUpdate(
        version=version,
        transport=transport,
        location="tcp://127.0.0.1:1/3/1",
        tensors=describe(TENSORS),
        buckets=(1, 1),
        deadlines=Deadlines(transfer_s=transfer_s),
    )


def test_nccl_is_joined_once_and_tensors_wait_beside_the_model() -> None:
    workers = Workers()
    receiver = NcclReceiver(workers)
    for version in (4, 7):
        staged = receiver.receive(manifest(version, "nccl"))
        assert staged.in_workers == version
        for worker in workers.all:
            assert len(worker.joined) == 1
            assert len(worker.loaded) == (0 if version == 4 else 1)
        workers("agentmem_load", staged=version)
    workers("agentmem_load", staged=4)
    for worker in workers.all:
        assert len(worker.loaded) == 3
        assert all(torch.equal(worker.loaded[-1][name], tensor) for name, tensor in TENSORS.items())


def test_workers_that_never_get_the_weights_are_a_timeout() -> None:
    workers = Workers()
    blocked = threading.Event()
    workers.all[1].weight_transfer_engine.wait = lambda: blocked.wait(120)
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="1 of 2 workers still wait"):
        NcclReceiver(workers).receive(manifest(1, "nccl", transfer_s=0.2))
    assert time.monotonic() - began < 60
    assert all(worker.loaded == [] for worker in workers.all)
    blocked.set()


def test_worker_that_fails_names_the_reason() -> None:
    workers = Workers()

    def fail() -> None:
        raise ConnectionError("peer is gone")

    workers.all[0].weight_transfer_engine.wait = fail
    with pytest.raises(RuntimeError, match="could not receive: ConnectionError: peer is gone"):
        NcclReceiver(workers).receive(manifest(1, "nccl"))


def test_ipc_buckets_are_answered_when_they_are_copied() -> None:
    workers = Workers(1)
    receiver = IpcReceiver(workers)
    staged: list[Any] = []
    thread = threading.Thread(target=lambda: staged.append(receiver.receive(manifest(3, "ipc"))))
    thread.start()
    with pytest.raises(ValueError, match="bucket of version 2"):
        receiver.deliver(2, {"names": ["a"], "shapes": [(2, 3)]}, 5.0)
    for name, tensor in TENSORS.items():
        receiver.deliver(3, {"names": [name], "shapes": [tuple(tensor.shape)]}, 5.0)
    thread.join(5)
    assert staged[0].in_workers == 3
    workers("agentmem_load", staged=3)
    assert set(workers.all[0].loaded[0]) == set(TENSORS)

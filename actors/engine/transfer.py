"""The engine's side of NCCL and CUDA IPC: vLLM's workers receive beside the model.

Calls to the workers run between two steps and only start or ask: no worker waits for the learner inside one,
so generation goes on during a transfer, and a learner that dies in the middle costs nothing but the staged
tensors.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from agentmem.weights import nccl
from agentmem.weights.base import Staged, WeightUpdate

POLL_S = 0.01
"""How often the workers are asked whether they have everything."""


class Rpc(Protocol):
    """Call a method of every worker between two steps, from any thread."""

    def __call__(self, method: str, **kwargs: object) -> list[Any]: ...


class NcclReceiver:
    """Joins the learner's group once for each location, then receives all buckets of an update."""

    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc
        self._joined = ""

    def receive(self, update: WeightUpdate) -> Staged:
        if update.location != self._joined:
            self._rpc("init_weight_transfer_engine", init_info=nccl.transfer_init(update))
            self._joined = update.location
        until = time.monotonic() + update.deadlines.transfer_s
        stage_and_wait(self._rpc, update.version, list(nccl.transfer_buckets(update)), until)
        return Staged(in_workers=update.version)


class IpcReceiver:
    """Takes buckets of handles as they are delivered (`deliver`, by the learner's calls)."""

    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc
        self._ready = False
        self._arrived: queue.SimpleQueue[tuple[int, Mapping[str, Any], queue.SimpleQueue[str]]] = (
            queue.SimpleQueue()
        )

    def deliver(self, version: int, bucket: Mapping[str, Any], seconds: float) -> None:
        """Returns when the workers have copied the bucket: then the learner may change its tensors."""
        answer: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._arrived.put((version, bucket, answer))
        try:
            reason = answer.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(
                f"no update takes the bucket of version {version} within {seconds:g} s"
            ) from None
        if reason:
            raise ValueError(reason)

    def receive(self, update: WeightUpdate) -> Staged:
        if not self._ready:
            self._rpc("init_weight_transfer_engine", init_info={"packed": False})
            self._ready = True
        until = time.monotonic() + update.deadlines.transfer_s
        left = len(update.buckets)
        while left:
            try:
                version, bucket, answer = self._arrived.get(timeout=max(until - time.monotonic(), 0.0))
            except queue.Empty:
                raise TimeoutError(f"{left} buckets did not come") from None
            if version != update.version:
                answer.put(f"bucket of version {version}, but version {update.version} is received")
                continue
            try:
                stage_and_wait(self._rpc, version, [bucket], until)
            except Exception as error:
                answer.put(f"{type(error).__name__}: {error}")
                raise
            answer.put("")
            left -= 1
        return Staged(in_workers=update.version)


def stage_and_wait(
    rpc: Rpc,
    number: int,
    buckets: Sequence[Mapping[str, Any]],
    until: float,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Let all workers receive these buckets; raises when one fails or `until` (monotonic) has come."""
    rpc("agentmem_stage", staged=number, update_infos=list(buckets))
    while True:
        states = rpc("agentmem_staged")
        failed = [state for state in states if state]
        if failed:
            raise RuntimeError(f"a worker could not receive: {failed[0]}")
        if all(state == "" for state in states):
            return
        if time.monotonic() >= until:
            raise TimeoutError(f"{states.count(None)} of {len(states)} workers still wait for the learner")
        pause(POLL_S)

"""Weights over NCCL: rank 0 of the learner broadcasts to every worker of every engine.

Sender: `NcclWire` broadcasts tensor by tensor through a communicator with `broadcast(tensor, src)`. The group
is vLLM's stateless one, so that a learner and engines that start and stop by themselves can join and leave
it; it is handed in by who knows vLLM (`communicator`), as this package does not. Receiver: vLLM's
weight-transfer API, told by the dictionaries of `transfer_init` and `transfer_buckets`.

`location` of the manifest is `tcp://host:port/world/offset`: where the group meets, how many ranks it has,
and the first rank of this engine's workers. A new location means a new group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import msgspec

from agentmem.weights.base import TensorMeta, WeightUpdate
from agentmem.weights.collective import bucketed

if TYPE_CHECKING:
    import torch


class Communicator(Protocol):
    """A group in which the learner is rank 0."""

    def broadcast(self, tensor: torch.Tensor, src: int) -> object: ...


class Meeting(msgspec.Struct, frozen=True):
    """Where and how a group comes together."""

    host: str
    port: int
    world: int
    offset: int = 1

    def __str__(self) -> str:
        return f"tcp://{self.host}:{self.port}/{self.world}/{self.offset}"

    @classmethod
    def parse(cls, location: str) -> Meeting:
        url = urlsplit(location)
        parts = url.path.strip("/").split("/")
        if url.scheme != "tcp" or not url.hostname or not url.port or len(parts) != 2:
            raise ValueError(f"location is {location!r}: must be tcp://host:port/world/offset")
        meeting = cls(url.hostname, url.port, int(parts[0]), int(parts[1]))
        if not 1 <= meeting.offset < meeting.world:
            raise ValueError(f"location is {location!r}: offset must be in [1, world)")
        return meeting


class NcclWire:
    """The sender's end."""

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator

    def send(self, bucket: Sequence[torch.Tensor], metas: Sequence[TensorMeta]) -> None:
        for tensor in bucket:
            self._communicator.broadcast(tensor, src=0)
        if bucket and bucket[0].is_cuda:
            import torch

            # Broadcasts are only queued; the buffers may be reused when they have left.
            torch.cuda.current_stream().synchronize()


def transfer_init(update: WeightUpdate) -> dict[str, Any]:
    """What vLLM's workers need to join the group."""
    meeting = Meeting.parse(update.location)
    return {
        "master_address": meeting.host,
        "master_port": meeting.port,
        "rank_offset": meeting.offset,
        "world_size": meeting.world,
        "packed": False,
    }


def transfer_buckets(update: WeightUpdate) -> Iterator[dict[str, Any]]:
    """What vLLM's workers are told to receive, bucket by bucket."""
    for metas in bucketed(update):
        yield {
            "names": [meta.name for meta in metas],
            "dtype_names": [meta.dtype for meta in metas],
            "shapes": [list(meta.shape) for meta in metas],
        }

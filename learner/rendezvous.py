"""How ranks find each other: one TCP store on rank 0, bound to a port that the system picked.

The port is bound by the store itself, so no other process can take it in between. Joining has a deadline.
"""

from __future__ import annotations

import datetime
import socket

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore, Store, TCPStore

from agentmem.failures import InfrastructureError


def open_store(host: str, world: int, timeout_s: float) -> TCPStore:
    """Rank 0: start the store on a free port (`store.port`)."""
    return TCPStore(
        host,
        0,
        world,
        is_master=True,
        timeout=datetime.timedelta(seconds=timeout_s),
        wait_for_workers=False,
    )


def join(store: Store, rank: int, world: int, device: torch.device, timeout_s: float) -> None:
    """Form the process group, or keep one of the same size. Raises InfrastructureError."""
    if dist.is_initialized():
        if dist.get_world_size() != world or dist.get_rank() != rank:
            raise InfrastructureError(
                f"this process is rank {dist.get_rank()} of {dist.get_world_size()} already, "
                f"it can't be rank {rank} of {world}"
            )
        return
    backend = "nccl" if device.type == "cuda" else "gloo"
    try:
        dist.init_process_group(
            backend,
            store=store,
            rank=rank,
            world_size=world,
            timeout=datetime.timedelta(seconds=timeout_s),
        )
    except (RuntimeError, ValueError) as error:
        raise InfrastructureError(
            f"learner rank {rank} of {world} couldn't join within {timeout_s:g} s: {error}"
        ) from error


def connect_store(host: str, port: int, world: int, timeout_s: float) -> TCPStore:
    """Any other rank: connect to rank 0's store. Raises InfrastructureError."""
    try:
        return TCPStore(
            host,
            port,
            world,
            is_master=False,
            timeout=datetime.timedelta(seconds=timeout_s),
            wait_for_workers=False,
        )
    except (RuntimeError, ValueError) as error:
        raise InfrastructureError(f"no learner store at {host}:{port}: {error}") from error


def own_address() -> str:
    """The address by which other machines reach this one; loopback without a network."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # sends nothing: only asks which interface would be used
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"


__all__ = ["HashStore", "Store", "TCPStore", "connect_store", "join", "open_store", "own_address"]

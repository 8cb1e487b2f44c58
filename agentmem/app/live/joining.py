"""Joining Ray: the cluster that is named, or one of this command's own, with room for what is asked for."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from actors.parts import LEARNER, parts_of
from actors.placement import Request, find_room, require
from agentmem.config import RunConfig
from agentmem.failures import InfrastructureError

log = logging.getLogger(__name__)

REACH_S = 10.0
"""How long the head of a cluster may take to accept a connection."""
Phase = Callable[[str], None]


def alone() -> bool:
    """Whether Ray is started for this command alone, on this machine."""
    return not os.environ.get("RAY_ADDRESS")


def start_ray(
    requests: Sequence[Request],
    *,
    machine_wait_s: float = 0.0,
    say: Phase | None = None,
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """`join_ray`, and a cluster that has room for what is asked for; see `find_room`."""
    join_ray(requests)
    if alone():
        require(requests)
    else:
        find_room(requests, requests, machine_wait_s=machine_wait_s, say=say or log.warning, pause=pause)


def join_ray(requests: Sequence[Request]) -> None:
    """Join the cluster that RAY_ADDRESS names, or start a local one with room for all parts.

    A laptop's two cores are shared by more actors than cores, so a local cluster counts as many CPUs as the
    run asks for, and as many custom resources. Raises InfrastructureError.
    """
    import ray

    given: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    _reach(os.environ.get("RAY_ADDRESS", ""))
    if alone():
        cpus = int(sum(r.cpus * r.count for r in requests)) + 1
        cpus = max(os.cpu_count() or 1, cpus)
        custom = {name: float(r.count) for r in requests for name in r.custom}
        given |= {"address": "local", "num_cpus": cpus, "resources": custom, "include_dashboard": False}
    try:
        ray.init(**given)
    except Exception as error:  # Ray raises whatever comes: refused connections, slow starts, full disks
        reason = (str(error).strip().splitlines() or [""])[0]
        address = os.environ.get("RAY_ADDRESS", "a local cluster")
        raise InfrastructureError(f"Ray ({address}): {type(error).__name__}: {reason}") from error


def _reach(address: str) -> None:
    """Refuse an address of a head where nobody listens: Ray would try for minutes, without a word."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "//" in address:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InfrastructureError(f"Ray ({address}): no head answers there: {reason}") from error


def resources(config: RunConfig, *, learns: bool = True) -> list[Request]:
    """What a run asks of the cluster."""
    return [part.request() for part in parts_of(config, learns=learns).values()]


def learner_request(config: RunConfig) -> Request:
    """What the learner asks of it."""
    return parts_of(config)[LEARNER].request()

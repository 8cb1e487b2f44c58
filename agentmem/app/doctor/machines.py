"""Checks of the machines: room on disks and in shared memory, one file system, one code, one time."""

from __future__ import annotations

import os
from collections.abc import Callable
from urllib.parse import urlsplit

from agentmem.app.doctor.finding import Unfit, Unseen
from agentmem.app.doctor.node import NodeFacts
from agentmem.app.doctor.patient import Patient
from agentmem.failures import ConfigError, InfrastructureError

LEAST_DISK = 1 << 30
LEAST_SHM = 512 << 20
"""Ray's objects and the ranks' collectives lie there; containers have 64 MiB unless told otherwise."""
LARGEST_CLOCK_ERROR_S = 2.0
TRAINED_BYTES = 14
"""Of a checkpoint, for each trained parameter: bf16 weight, float32 copy, two moments."""


def disk(patient: Patient) -> str:
    """Room for checkpoints, snapshots of weights and the final model, and for models made here."""
    needed = max(LEAST_DISK, _checkpoint_bytes(patient))
    for node in patient.nodes[:1]:  # runs are written by the driver and its ranks, on one volume
        for what, free, variable in (
            ("runs", node.runs_free, "AGENTMEM_RUNS"),
            ("models", node.cache_free, "AGENTMEM_CACHE"),
        ):
            if free < 0:
                raise Unfit(
                    InfrastructureError,
                    f"{node.name}: {what} can't be written",
                    f"set {variable} to a directory that can",
                )
            if free < needed:
                raise Unfit(
                    InfrastructureError,
                    f"{node.name}: {_gib(free)} are free for {what}, {_gib(needed)} may be needed "
                    f"(learner.keep_checkpoints is {patient.config.learner.keep_checkpoints})",
                    f"make room, or set {variable}",
                )
    here = patient.nodes[0]
    room = f"{_gib(here.runs_free)} free for runs, {_gib(here.cache_free)} for models"
    return f"{room}; {_gib(needed)} may be needed"


def _checkpoint_bytes(patient: Patient) -> int:
    from actors.engine.checkpoint import read_checkpoint
    from actors.engine.protocol import EngineConfig
    from agentmem.app.doctor.models import parameters

    config = patient.config
    path = patient.models.get(config.learning)
    if path is None:
        return 0
    trained = parameters(read_checkpoint(EngineConfig(model=str(path), max_model_len=1))[0])
    snapshots = 3  # the served one, the next one, and the final model
    return trained * (TRAINED_BYTES * (config.learner.keep_checkpoints + 1) + 4 * snapshots)


def shared_memory(patient: Patient) -> str:
    """/dev/shm of each machine."""

    def look(node: NodeFacts) -> str:
        if node.shm_free < 0:
            return "there is no /dev/shm"
        return (
            f"{_mib(node.shm_free)} are free in /dev/shm, {_mib(LEAST_SHM)} are needed"
            if node.shm_free < LEAST_SHM
            else ""
        )

    _each(patient, look, "give containers more (--shm-size, or an emptyDir of medium Memory)")
    return f"{_gib(min(node.shm_free for node in patient.nodes))} free" + _on_all(patient)


def code(patient: Patient) -> str:
    """Every node runs the same sources."""
    here = patient.nodes[0]

    def look(node: NodeFacts) -> str:
        if node.python.rpartition(".")[0] != here.python.rpartition(".")[0]:
            return f"it runs Python {node.python}, this one {here.python}"
        return f"its AgentMem is {node.code}, this one's {here.code}" if node.code != here.code else ""

    _each(patient, look, "start the run by `agentmem submit`, or update the nodes' image", ConfigError)
    return f"{here.code}, Python {here.python}" + _on_all(patient)


def ray_package(patient: Patient) -> str:
    """A version that is known, on every node."""
    here = patient.nodes[0].versions.get("ray")
    if here is None:
        raise Unfit(ConfigError, "Ray isn't installed", "pip install 'agentmem[run]'")
    numbers = tuple(int(part) for part in here.split(".")[:2])
    if not ((2, 52) <= numbers < (3, 0)):
        raise Unfit(
            ConfigError, f"Ray {here} is installed", "2.52 to before 3 are known: install one of these"
        )
    return f"Ray {here}" + _on_all(patient)


def authentication(patient: Patient) -> str:
    """Who can reach Ray's ports can run programs: so a token, unless only this machine can."""
    if patient.alone:
        return "a local cluster, on this machine alone"
    address = patient.address or os.environ["RAY_ADDRESS"]
    mode = os.environ.get("RAY_AUTH_MODE", "")
    host = urlsplit(address if "//" in address else f"//{address}").hostname or ""
    loopback = host in ("localhost", "127.0.0.1", "::1", "auto", "")
    if mode == "token":
        return "RAY_AUTH_MODE=token"
    if mode == "disabled" and loopback:
        return "RAY_AUTH_MODE=disabled, on a loopback address"
    said = "isn't set, so server and client may disagree" if not mode else f"is {mode!r}"
    raise Unfit(
        InfrastructureError,
        f"RAY_AUTH_MODE {said} (cluster at {address})",
        "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH) for the nodes and here",
    )


def shared_directory(patient: Patient) -> str:
    """Runs and models lie where every node sees them: checkpoints and weights go through files."""
    if len(patient.nodes) < 2:
        raise Unseen("one machine")

    def look(node: NodeFacts) -> str:
        return "" if all(node.seen) else "doesn't see the directory of runs (AGENTMEM_RUNS) or that of models"

    _each(patient, look, "put AGENTMEM_RUNS and AGENTMEM_CACHE on a volume that all nodes mount")
    return "runs and models are seen" + _on_all(patient)


def clock(patient: Patient) -> str:
    """All machines agree on the time."""
    clocks = dict(patient.clocks)
    if not clocks:
        raise Unseen("no other machine was asked")
    for name, (ahead, error) in clocks.items():
        if abs(ahead) - error > LARGEST_CLOCK_ERROR_S:
            raise Unfit(
                InfrastructureError,
                f"{name} is {abs(ahead):.1f} s {'ahead' if ahead > 0 else 'behind'}",
                "synchronise the clocks (chrony, NTP)",
            )
    worst = max(abs(ahead) for ahead, _ in clocks.values())
    return f"{', '.join(clocks)}: within {max(worst, 0.001):.3f} s"


def _each(
    patient: Patient,
    look: Callable[[NodeFacts], str],
    remedy: str,
    kind: type[InfrastructureError] | type[ConfigError] = InfrastructureError,
) -> None:
    for node in patient.nodes:
        if said := look(node):
            raise Unfit(kind, f"{node.name}: {said}", remedy)


def _on_all(patient: Patient) -> str:
    return f" on each of {len(patient.nodes)} nodes" if len(patient.nodes) > 1 else ""


def _gib(size: int) -> str:
    return f"{size / (1 << 30):,.1f} GiB"


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"

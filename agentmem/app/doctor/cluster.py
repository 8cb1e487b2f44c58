"""A live cluster: joined or started, asked what its nodes have, and compared with what the run wants."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from actors.placement import Request, lacking, unplaced
from agentmem.app.doctor.finding import Unfit, Unseen
from agentmem.app.doctor.node import NodeFacts, facts
from agentmem.app.doctor.patient import Patient
from agentmem.failures import ConfigError, InfrastructureError, ResourceError

ASK_S = 90.0
"""Until every node has answered: its worker process may have to be started, and to unpack the code."""
CLOCK_ROUNDS = 5


class Probe:
    """Ray actor (`num_cpus=0`), one on each node. Only what must be asked again and again lives in it."""

    def facts(self, *args: Any) -> NodeFacts:
        """See `node.facts`."""
        return facts(*args)

    def now(self) -> float:
        """Its clock."""
        return time.time()


@contextmanager
def joined(patient: Patient, requests: Sequence[Request]) -> Iterator[None]:
    """Ray, for as long as the context lasts. Fills in the patient's nodes, resources and clocks.

    Raises InfrastructureError if there is no cluster, or a node doesn't answer.
    """
    import ray

    from agentmem.app.live.joining import join_ray

    if patient.address:
        os.environ["RAY_ADDRESS"] = patient.address
    join_ray(requests)
    try:
        alive = [node for node in ray.nodes() if node["Alive"]]
        own = ray.get_runtime_context().get_node_id()
        alive.sort(key=lambda node: node["NodeID"] != own)
        patient.resources = {_name(node): dict(node["Resources"]) for node in alive}
        if len(alive) > 1:
            _ask(patient, alive)
        yield
    finally:
        ray.shutdown()


def _name(node: Mapping[str, Any]) -> str:
    return f"{node['NodeManagerAddress']} ({node['NodeID'][:6]})"


def _ask(patient: Patient, alive: Sequence[Mapping[str, Any]]) -> None:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from agentmem.app.reporting.rundir import runs_base
    from envs.data import cache_dir

    env = patient.config.env
    runs, cache = runs_base().absolute(), cache_dir().absolute()
    mark = _marked(runs)
    paths = [*([str(mark)] if mark else []), *(str(path) for path in patient.models.values())]
    probes: dict[str, Any] = {}
    try:
        for node in alive:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            actor = ray.remote(Probe).options(num_cpus=0, scheduling_strategy=there)
            probes[_name(node)] = actor.remote()
        asked = {
            name: probe.facts.remote(name, env.name, str(runs), str(cache), paths, env.options)
            for name, probe in probes.items()
        }
        found = {name: _answer(ref, name) for name, ref in asked.items()}
        patient.nodes = list(found.values())
        patient.clocks = {name: _clock(probe) for name, probe in list(probes.items())[1:]}
    finally:
        for probe in probes.values():
            ray.kill(probe, no_restart=True)
        if mark:
            mark.unlink(missing_ok=True)


def _marked(runs: Path) -> Path | None:
    """A file among the runs that the other nodes are asked for; None if it can't be written."""
    mark = runs / f".doctor-{os.getpid()}"
    try:
        runs.mkdir(parents=True, exist_ok=True)
        mark.touch()
    except OSError:  # said by the check of disks
        return None
    return mark


def _answer(ref: Any, name: str) -> NodeFacts:
    import ray

    try:
        told: NodeFacts = ray.get(ref, timeout=ASK_S)
    except ray.exceptions.GetTimeoutError:
        raise InfrastructureError(f"node {name} gave no answer within {ASK_S:g} s") from None
    except ray.exceptions.RayError as error:
        reason = " ".join(str(error).split())
        if "ModuleNotFoundError" in reason or "No module named" in reason:
            raise Unfit(
                ConfigError,
                f"node {name} has no AgentMem",
                "start the run by `agentmem submit`, or install the package in the nodes' image",
            ) from error
        raise InfrastructureError(f"node {name}: {type(error).__name__}: {reason[:200]}") from error
    return told


def _clock(probe: Any) -> tuple[float, float]:
    """How far ahead, and how far that may be wrong: of several rounds the quickest."""
    import ray

    rounds = []
    for _ in range(CLOCK_ROUNDS):
        before = time.time()
        there = ray.get(probe.now.remote(), timeout=ASK_S)
        after = time.time()
        rounds.append(((after - before) / 2, there - (before + after) / 2))
    error, ahead = min(rounds)
    return ahead, error


def cluster(patient: Patient) -> str:
    """What was joined or started."""
    total: dict[str, float] = {}
    for has in patient.resources.values():
        for name in ("CPU", "GPU"):
            total[name] = total.get(name, 0) + has.get(name, 0)
    where = f"at {patient.address or os.environ.get('RAY_ADDRESS')}" if not patient.alone else "local"
    nodes = f"{len(patient.resources)} node" + "s" * (len(patient.resources) > 1)
    return f"{nodes} {where}: {total['CPU']:g} CPUs, {total['GPU']:g} GPUs"


def table(requests: Sequence[Request]) -> list[str]:
    """The placement that a run asks for, a line each."""
    lines = []
    for request in requests:
        each = [f"{request.cpus:g} CPU"] if request.cpus else []
        each += [f"{request.gpus:g} GPU"] if request.gpus else []
        each += [f"{amount:g} {name}" for name, amount in request.custom.items()]
        lines.append(f"{request.what:<22} {request.count:>4} × {', '.join(each)}")
    return lines


def placement(requests: Sequence[Request], patient: Patient) -> str:
    """The cluster has what is asked for, all together and each part on one node."""
    has: dict[str, float] = {}
    for node in patient.resources.values():
        for name, amount in node.items():
            has[name] = has.get(name, 0) + amount
    lines = lacking(requests, has) or unplaced(requests, list(patient.resources.values()))
    wait_s = patient.config.scaling.machine_wait_s
    if lines and wait_s > 0:
        raise Unseen(f"its autoscaler would have {wait_s:g} s to add machines: {'; '.join(lines)}")
    if lines:
        raise Unfit(ResourceError, "; ".join(lines), "add nodes, or lower the numbers in the recipe")
    asked = sum(request.count for request in requests)
    cpus = sum(request.count * request.cpus for request in requests)
    gpus = sum(request.count * request.gpus for request in requests)
    return f"{asked} parts with {cpus:g} CPUs and {gpus:g} GPUs fit"

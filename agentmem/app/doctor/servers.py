"""Checks of what a run uses besides its own parts: engines' packages and the replay server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.app.doctor.finding import Unfit, Unseen
from agentmem.app.doctor.patient import Patient
from agentmem.failures import ConfigError, ReplayError

if TYPE_CHECKING:
    from agentmem.replay.health import ServerHealth

SPARE = 1.2
"""Memory of the server against the buffer's byte budget: keys, indexes and tips need some, too."""


def engines(patient: Patient) -> str:
    """The installed engine can change weights in place and tells log-probs of what it sampled from."""
    config, told = patient.config, []
    served = config.served if config.method != "mempi-stage1" else ()
    if not served:
        raise Unseen("no engine serves a policy of this run")
    for backend in dict.fromkeys(config.engines[name].backend for name in served):
        if backend == "vllm":
            from actors.engine.vllm_engine import LOGPROBS, probe_features

            told.append(f"vLLM {probe_features()} with weight update and {LOGPROBS}")
        else:
            from importlib.metadata import PackageNotFoundError, version

            try:
                told.append(f"PyTorch {version('torch')}, the small engine")
            except PackageNotFoundError:
                raise Unfit(ConfigError, "torch isn't installed", "pip install 'agentmem[train]'") from None
    here = patient.nodes[0].versions
    for node in patient.nodes[1:]:
        for package, found in here.items():
            if node.versions.get(package) not in (None, found):
                raise Unfit(
                    ConfigError,
                    f"node {node.name} has {package} {node.versions[package]}, this one {found}",
                    "use one image, or one lock file, for all nodes",
                )
    return "; ".join(told)


def replay(patient: Patient) -> str:
    """The server can be reached, is new enough, and evicts nothing."""
    with _asked(patient) as server:
        where = server.shown if patient.config.replay.url else "embedded, started with the run"
        return f"{server.product}, noeviction ({where})"


def replay_password(patient: Patient) -> str:
    """A server that others can reach asks for a password."""
    with _asked(patient) as server:
        if server.open_to_all:
            raise Unfit(
                ReplayError,
                f"replay server {server.shown} listens beyond its machine and asks for no password",
                "set requirepass there, and replay.url to redis://***@…",
            )
    return (
        "asked for"
        if patient.config.replay.url is None or "@" in patient.config.replay.url
        else "none, and it is local"
    )


def replay_file(patient: Patient) -> str:
    """What it acknowledged survives its death."""
    with _asked(patient) as server:
        if not server.append_only:
            raise Unfit(
                ReplayError,
                f"replay server {server.shown} keeps no append-only file: its death loses all trials in it",
                "set appendonly yes (and appendfsync everysec)",
            )
    return "appendonly yes"


def replay_memory(patient: Patient) -> str:
    """It has room for the byte budget."""
    budget = patient.config.replay.byte_budget_mib << 20
    with _asked(patient) as server:
        limit = server.maxmemory or server.machine
        whose = "maxmemory" if server.maxmemory else "memory of its machine"
        if limit and limit < SPARE * budget:
            raise Unfit(
                ReplayError,
                f"{whose} is {_mib(limit)}, the buffer may take {_mib(budget)} (replay.byte_budget_mib)",
                f"give the server {_mib(int(SPARE * budget))}, or lower replay.byte_budget_mib",
            )
        return f"{whose} {_mib(limit)}, {_mib(server.used)} used, buffer at most {_mib(budget)}"


@contextmanager
def _asked(patient: Patient) -> Iterator[ServerHealth]:
    """The health of the configured server; without one, that of an embedded server on empty data."""
    from agentmem.app.live.preflight import PREFLIGHT_S
    from agentmem.app.reporting.run_buffer import with_password
    from agentmem.replay import EmbeddedServer
    from agentmem.replay.health import health

    if patient.config.method == "mempi-stage1":
        raise Unseen("method 'mempi-stage1' uses no replay buffer")
    url = with_password(patient.config.replay.url, "replay.url", "use a server without one")
    if url is not None:
        yield health(url, deadline_s=PREFLIGHT_S)
        return
    with tempfile.TemporaryDirectory(prefix="am-doctor-") as folder, EmbeddedServer(Path(folder)) as server:
        yield health(server.url, deadline_s=PREFLIGHT_S)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"

"""Faults that are staged for the doctor, one or more for each of its checks, and what it must say of each."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from agentmem.app.doctor.node import NodeFacts, facts
from agentmem.app.doctor.patient import Patient
from agentmem.config import load_config
from agentmem.replay import find_server

RECIPE = "lamer-minesweeper"
TORCH = "engines.agent.backend=torch"


def patient(*overrides: str, recipe: str = RECIPE, **more: object) -> Patient:
    """Examined on this machine alone."""
    made = Patient(load_config(recipe, (TORCH, *overrides)), recipe, **more)  # type: ignore[arg-type]
    made.nodes = [facts("this machine", made.config.env.name, "runs", "/tmp")]
    return made


def second_node(one: Patient, **different: object) -> Patient:
    """The same with another node, which differs in this."""
    other: NodeFacts = replace(one.nodes[0], name="10.0.0.2 (ab12cd)", **different)  # type: ignore[arg-type]
    one.nodes = [*one.nodes, other]
    return one


def edited(model: Path, into: Path, file: str, **changes: object) -> Path:
    """A copy of a model with changes in one of its JSON files."""
    shutil.copytree(model, into)
    tree = json.loads((into / file).read_text())
    (into / file).write_text(json.dumps({**tree, **changes}))
    return into


@contextlib.contextmanager
def redis(host: str = "127.0.0.1", **settings: str) -> Iterator[str]:
    """A real server with these settings (`_` for `-`); its URL, without a password."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    given: Mapping[str, str] = {
        "bind": host,
        "port": str(port),
        "save": "",
        "appendonly": "no",
        "dir": "/tmp",
        **{name.replace("_", "-"): value for name, value in settings.items()},
    }
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    process = subprocess.Popen([find_server(), *words], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 20
        while True:
            try:
                socket.create_connection((host, port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < end, "the server doesn't listen"
                time.sleep(0.02)
        yield f"redis://{host}:{port}/0"
    finally:
        process.terminate()
        process.wait(20)

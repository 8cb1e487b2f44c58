"""Where environments find their data, and how archives are unpacked.

- Data lie in `AGENTMEM_DATA` (default: `data` in the cache directory), in one folder per environment. It may
  be read-only. `agentmem data fetch NAME` fills it.
- What is made from data (unpacked archives, indexes) lies in the cache directory: `AGENTMEM_CACHE`, or
  `~/.cache/agentmem`. It appears whole or not at all: it is made beside its place and renamed, under a lock
  that other processes wait for. What an interrupted maker left is removed by the next.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

from envs.options import EnvSetupError


def cache_dir() -> Path:
    """The directory of what is made here and can be made again."""
    named = os.environ.get("AGENTMEM_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "agentmem"


def data_dir() -> Path:
    """The directory of the environments' data."""
    named = os.environ.get("AGENTMEM_DATA")
    return Path(named).expanduser() if named else cache_dir() / "data"


def data_file(env: str, relative: str) -> Path:
    """A file of an environment's data. Raises `EnvSetupError` saying how to get it if it isn't there."""
    path = data_dir() / relative
    if not path.exists():
        raise EnvSetupError(
            f"environment {env} needs {relative}, which isn't in {data_dir()}: "
            f"run `agentmem data fetch {env}`, or set AGENTMEM_DATA"
        )
    return path


def missing_files(env: str, relatives: Iterable[str]) -> list[str]:
    """Those of an environment's files that aren't there, and how to get them, a line each."""
    missing = []
    for relative in relatives:
        try:
            data_file(env, relative)
        except EnvSetupError as error:
            missing.append(str(error))
    return missing


def made_once(name: str, source: Path, make: Callable[[Path], None]) -> Path:
    """A directory of the cache that `make(directory)` fills from `source`, once for all processes.

    Its name ends in a hash of the source's path, size and time, so that another source makes another one.
    """
    stat = source.stat()
    key = hashlib.sha256(f"{source.resolve()}:{stat.st_size}:{stat.st_mtime_ns}".encode()).hexdigest()[:12]
    place = cache_dir() / "made" / f"{name}-{key}"
    if place.is_dir():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with open(place.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.is_dir():
                partial = place.with_suffix(".partial")
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir()
                make(partial)
                partial.rename(place)
    except OSError as error:
        raise EnvSetupError(
            f"{name} can't be made in {place.parent} ({error.strerror}): set AGENTMEM_CACHE"
        ) from None
    return place


def unpacked(archive: Path) -> Path:
    """The directory with a tar archive's content."""

    def extract(into: Path) -> None:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(into, filter="data")
        except (tarfile.TarError, EOFError) as error:
            raise EnvSetupError(f"{archive} is no whole tar archive ({error}): fetch it again") from None

    return made_once(archive.name.split(".")[0], archive, extract)

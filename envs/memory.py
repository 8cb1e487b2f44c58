"""How much memory a process and all that it started use."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

_PROC = Path("/proc")


def tree_mib(root: int | None = None) -> float:
    """MiB of a process (this one) and all below it; memory that they share is counted once, by shares.

    From `/proc`, so 0 where there is none. A process that ends meanwhile counts as nothing.
    """
    below = defaultdict(list)
    for stat in _PROC.glob("[0-9]*/stat"):
        try:
            parent = stat.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        below[int(parent)].append(int(stat.parent.name))
    total, waiting = 0, [root or os.getpid()]
    while waiting:
        pid = waiting.pop()
        waiting += below[pid]
        total += _share_kib(pid)
    return total / 1024


def peak_mib() -> float:
    """Most resident MiB of this program so far (since it began, not of what its process was before); 0 where
    there is no `/proc`."""
    return _kib(_PROC / "self" / "status", "VmHWM:") / 1024


def _share_kib(pid: int) -> int:
    return _kib(_PROC / str(pid) / "smaps_rollup", "Pss:")


def _kib(path: Path, field: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(field)), 0)

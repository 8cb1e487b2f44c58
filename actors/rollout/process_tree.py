"""What an environment's process has started: found, and ended with it.

An environment may start a JVM or a browser, which doesn't end by itself when its parent is killed. They are
found as descendants while the parent lives, and by a variable that they inherit once it is gone.
"""

from __future__ import annotations

import contextlib

import psutil

MARK = "AGENTMEM_ENV_HOST"
"""Environment variable with a host process's own id, inherited by all below it."""


def family(pid: int) -> list[psutil.Process]:
    """A process and all below it, as far as they live."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def end_marked(mark: str) -> int:
    """Kill every process that inherited this mark; returns how many. Looks at all processes of this user."""
    ended = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark:
                process.kill()
                ended += 1
    return ended


def end_all(processes: list[psutil.Process]) -> None:
    """Kill these processes, as far as they live."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()

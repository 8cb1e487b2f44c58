"""Brings an embedded server's append-only file to the disk, once a second.

What the server has acknowledged is in the file at once, so the death of the server loses nothing; what this
adds is that the death of the machine loses a second at most.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

SYNC_EVERY_S = 1.0


class AppendOnlySync:
    """A daemon thread that syncs the append-only files under `data` whenever they have grown."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._seen: dict[Path, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="replay-sync", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.wait(SYNC_EVERY_S):
            self.sync()

    def sync(self) -> None:
        """Sync the files that changed since the last call. A rewrite may take one away in between."""
        for path in [*self._data.glob("*.aof"), *self._data.glob("appendonlydir/*.aof")]:
            with contextlib.suppress(FileNotFoundError):
                changed = path.stat().st_mtime_ns
                if self._seen.get(path) == changed:
                    continue
                handle = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
                self._seen[path] = changed

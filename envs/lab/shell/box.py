"""A Linux system of its own for one episode, seen from outside. What happens inside is `inside.py`'s.

Nothing that runs in a box reaches the host: see there. When the box is closed, or this process dies in
whatever way, the kernel ends all that runs in it and removes its mounts.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.data import cache_dir
from envs.options import EnvSetupError

INSIDE = Path(__file__).with_name("inside.py")
_UNSHARE = (
    "--mount",
    "--pid",
    "--net",
    "--uts",
    "--ipc",
    "--fork",
    "--kill-child",
    "--propagation",
    "private",
)
_START_S = 30.0
_GRACE_S = 15.0
"""Seconds beyond a script's own time after which the box counts as broken."""


class BoxError(RuntimeError):
    """The box is broken or has gone: a failure of the machine, not of the agent."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a script. `stopped`: None, `time`, `processes` or `memory`."""

    code: int
    output: str
    stopped: str | None = None


class Box:
    """One running box. `root` is never written to."""

    def __init__(self, root: Path, disk_mib: int) -> None:
        # Each box mounts over this directory where only it sees it, so all boxes can share it.
        work = cache_dir() / "lab-box"
        try:
            work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EnvSetupError(
                f"lab-os: {work} can't be made ({error.strerror}): set AGENTMEM_CACHE"
            ) from None
        command = ["unshare", *_UNSHARE, sys.executable, "-I", "-S", "-B", str(INSIDE)]
        self._process = subprocess.Popen(
            [*command, str(root.resolve()), str(work), str(disk_mib)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        self._rest = b""
        try:
            started = self._reply(_START_S)
        except BoxError:
            self.close()
            raise EnvSetupError(
                "lab-os: unshare can't make namespaces here: run as root, in a container with CAP_SYS_ADMIN"
            ) from None
        if "failed" in started:
            self.close()
            raise EnvSetupError(f"lab-os: a box can't be made here: {started['failed']}")

    def run(self, script: str, seconds: float) -> Result:
        """Run a bash script to its end, at most for `seconds`. Raises `BoxError` if the box has gone."""
        assert self._process.stdin is not None
        request = json.dumps({"script": script, "seconds": seconds}).encode() + b"\n"
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
        except OSError:
            raise BoxError("lab-os: the box has ended") from None
        return Result(**self._reply(seconds + _GRACE_S))

    def _reply(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        deadline = time.monotonic() + seconds
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise BoxError(f"lab-os: the box didn't answer within {seconds:g} s")
            data = os.read(pipe, 1 << 16)
            if not data:
                raise BoxError("lab-os: the box has ended")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """End the box and all that runs in it. Idempotent."""
        self._process.kill()  # `unshare --kill-child`: process 1 of the box dies with it
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


def lacking() -> list[str]:
    """Why no box can be made on this machine, a line each."""
    found = []
    if not sys.platform.startswith("linux"):
        return ["lab-os: boxes need Linux"]
    if os.geteuid() != 0:
        found.append(
            "lab-os: boxes need root (mounts and namespaces): run as root, or in a container that may"
        )
    if shutil.which("unshare") is None:
        found.append("lab-os: unshare isn't installed: apt-get install util-linux")
    return found

"""Which browser is used, and how it is started so that it dies with its owner.

Playwright's driver (a Node process) starts Chromium, and each is started through a small script that asks the
kernel to kill it when its parent dies. So nothing is left behind, however the owner ends. Chromium's own
children end when their browser does. Temporary files go to a directory of the owner's that it removes; what a
killed owner left is removed by the next one that starts.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import IO

from envs.data import made_once
from envs.options import EnvSetupError

CANDIDATES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    # It never asks anything of the network by itself.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-pings",
    # There is no graphics card to wait for, and /dev/shm may be small in a container.
    "--disable-gpu",
    "--disable-dev-shm-usage",
)


def executable(named: str = "") -> Path:
    """The browser to use. Raises `EnvSetupError` with the remedy if there is none."""
    named = named or os.environ.get("AGENTMEM_CHROMIUM", "")
    for name in (named,) if named else CANDIDATES:
        found = shutil.which(name)
        if found:
            return Path(found)
    looked = named or ", ".join(CANDIDATES)
    raise EnvSetupError(
        f"no browser found ({looked}): install Debian's package chromium, or set AGENTMEM_CHROMIUM"
    )


def missing(named: str = "") -> list[str]:
    """What lacks on this machine to start the browser, and how to get it, a line each."""
    lines = []
    try:
        executable(named)
    except EnvSetupError as error:
        lines.append(str(error))
    if shutil.which("setpriv") is None:
        lines.append("setpriv isn't there, by which a browser dies with its owner: install util-linux")
    return lines


def mortal(program: Path) -> Path:
    """A script that becomes this program, to be killed when its parent dies."""
    lines = missing(str(program))
    if lines:
        raise EnvSetupError(lines[0])

    def make(directory: Path) -> None:
        script = directory / program.name
        script.write_text(f'#!/bin/sh\nexec setpriv --pdeathsig KILL -- {shlex.quote(str(program))} "$@"\n')
        script.chmod(0o755)

    return made_once(f"mortal-{program.name}", program, make) / program.name


class Scratch:
    """A directory for temporary files. See the module's docstring for who removes it."""

    def __init__(self) -> None:
        home = Path(tempfile.gettempdir()) / f"agentmem-browser-{os.getuid()}"
        home.mkdir(mode=0o700, exist_ok=True)
        with open(home / "lock", "w") as all_of_them:
            fcntl.flock(all_of_them, fcntl.LOCK_EX)
            for left in home.glob("*.owner"):
                _remove_if_left(left)
            self.path = Path(tempfile.mkdtemp(dir=home))
            self._owner: IO[str] = open(self.path.with_suffix(".owner"), "w")  # noqa: SIM115
            fcntl.flock(self._owner, fcntl.LOCK_EX)

    def close(self) -> None:
        """Remove it. Idempotent."""
        _remove(self.path.with_suffix(".owner"))
        self._owner.close()


def _remove_if_left(owner: Path) -> None:
    """Remove the directory of an owner that doesn't hold its lock any more."""
    with open(owner) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
    _remove(owner)


def _remove(owner: Path) -> None:
    """Remove a directory and, once it is gone, its owner's lock; what is still written to goes later."""
    shutil.rmtree(owner.with_suffix(""), ignore_errors=True)
    if not owner.with_suffix("").exists():
        owner.unlink(missing_ok=True)

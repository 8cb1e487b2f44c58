"""The root directory that all boxes share, made once by debootstrap: Debian 12 with what the tasks need."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from envs.data import made_once
from envs.options import EnvSetupError

NAME = "lab-os-root"
SUITE = "bookworm"
PACKAGES = "python3-minimal,procps,vim-tiny,tree,adduser"
MIRROR = "AGENTMEM_DEBIAN_MIRROR"
"""Names another Debian mirror than debootstrap's own."""
_LIMIT_S = 1800


def root_directory(given: str) -> Path:
    """The option `root`, or the one in the cache directory, which the first call makes (about a minute).

    Raises `EnvSetupError` naming what is missing.
    """
    if given:
        place = Path(given).expanduser()
        if not (place / "bin" / "bash").exists():
            raise EnvSetupError(
                f"option root={given!r}: must be the root directory of a Linux system with bash"
            )
        return place
    debootstrap = shutil.which("debootstrap")
    if debootstrap is None:
        raise EnvSetupError(MISSING)
    return made_once(NAME, Path(debootstrap), _make)


MISSING = (
    "lab-os: debootstrap, which makes the boxes' root directory, isn't installed: apt-get install "
    "debootstrap (or name a root directory by the option root)"
)


def _make(into: Path) -> None:
    print(f"lab-os: making the boxes' root directory ({SUITE}, 250 MB), once", file=sys.stderr, flush=True)
    mirror = os.environ.get(MIRROR)
    # debootstrap mounts /proc in the new root; in namespaces of its own, that goes with it however it ends.
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "debootstrap", "--variant=minbase",
         f"--include={PACKAGES}", SUITE, str(into), *([mirror] if mirror else [])],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", timeout=_LIMIT_S,
    )  # fmt: skip
    if done.returncode:
        said = (done.stdout.strip().splitlines() or ["no output"])[-1]
        raise EnvSetupError(
            f"lab-os: debootstrap failed ({said}): a Debian mirror must be reachable ({MIRROR} names another)"
        )
    shutil.rmtree(into / "var" / "cache" / "apt", ignore_errors=True)

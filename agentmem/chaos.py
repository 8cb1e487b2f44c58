"""Where tests hold a running system, so that what they kill is known to be in the middle of something.

With `AGENTMEM_CHAOS` naming a directory, the first part that comes to the moment `m` while `<dir>/<m>.hold`
exists writes its process id to `<dir>/<m>.held` and waits there until the `.hold` file is gone. Without the
variable, `hold` does nothing. Moments are named `<part>.<what>` where they are passed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_DIRECTORY = os.environ.get("AGENTMEM_CHAOS", "")
_POLL_S = 0.02
LONGEST_S = 120.0
"""A test that died leaves nobody waiting for ever."""


def hold(moment: str) -> None:
    """See the module's docstring."""
    if not _DIRECTORY:
        return
    asked = Path(_DIRECTORY) / f"{moment}.hold"
    if not asked.exists():
        return
    try:
        held = os.open(asked.with_suffix(".held"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return  # somebody else is held already
    os.write(held, str(os.getpid()).encode())
    os.close(held)
    end = time.monotonic() + LONGEST_S
    while asked.exists() and time.monotonic() < end:
        time.sleep(_POLL_S)

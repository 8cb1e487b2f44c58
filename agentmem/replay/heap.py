"""Large payloads come and go: keep the C heap from giving their pages back each time.

By default glibc returns the free top of its heap above 128 KB to the kernel, so that each payload of 64 KB
costs 16 page faults, more than all else that is done with it. The thresholds set here are those that glibc
comes to by itself once a block of 32 MB was freed; at most 64 MB stay with the process.
"""

from __future__ import annotations

import ctypes
import os

WORTH_BYTES = 32 << 10
"""Payloads below aren't felt."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_done = False


def keep_large_blocks() -> None:
    """Set the thresholds, once a process; not where the environment sets any, nor without glibc."""
    global _done
    if _done:
        return
    _done = True
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, 32 << 20)
    mallopt(_M_TRIM_THRESHOLD, 64 << 20)

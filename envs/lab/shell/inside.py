"""Process 1 of a box: builds the box around itself, then runs scripts for the process that started it.

It runs as a program of its own (standard library alone) in new mount, process, network, host-name and IPC
namespaces, made by `unshare`:

    inside.py ROOT WORK DISK_MIB        requests on standard input, replies on standard output, JSON lines
    {"script", "seconds"}           ->  {"code", "output", "stopped"}

- The root directory is an overlay: `ROOT`, which is never written, below a directory in memory of at most
  `DISK_MIB`. `pivot_root` makes it the only file system that this mount namespace has; the host's is gone
  from it. The kernel's settings in /proc are read-only, what tells of the host is covered, no device but
  the usual harmless ones exists and none can be made.
- Scripts run as root without the rights that reach outside (`KEPT` are left, and no more can be got), so
  process 1 can be neither read, traced nor, being process 1, killed by them.
- More than `MOST_PROCESSES` processes, or `MOST_MEMORY` in use, and all of them are killed at once, by one
  call of the kernel's: a fork bomb can't outrun it.
- Standard input at its end means that the owner has gone: process 1 ends, with it everything in the box, and
  with the last process the kernel removes the namespaces and the file system.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any

MOST_PROCESSES = 200
MOST_MEMORY = 512 << 20
PROCESS_MEMORY = 1 << 30
"""Address space of one process."""
MOST_OUTPUT = 64 << 10
"""Bytes of a script's output that are kept."""
LOOK_S = 0.05
"""How often processes and memory are counted."""
CLEAR_S = 10.0
"""How long killing a crowd may take."""
KEPT = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18}
"""Capabilities that scripts keep (linux/capability.h): chown, dac_override, fowner, fsetid, kill, setgid,
setuid, setpcap, net_bind_service, net_raw, sys_chroot."""

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 32, 4096, 16384, 1 << 18
_MNT_DETACH = 2
_PR_CAPBSET_READ, _PR_CAPBSET_DROP = 23, 24
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_DEVICES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
}
_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "mtrr", "latency_stats")
_COVERED = (
    "kcore",
    "keys",
    "timer_list",
    "sched_debug",
    "kallsyms",
    "kmsg",
    "config.gz",
    "interrupts",
    "softirqs",
)
_ENVIRONMENT = {
    "HOME": "/root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
}

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any) -> None:
    """A function of the C library that returns 0. Raises OSError naming it and its first argument."""
    plain = [argument.encode() if isinstance(argument, str) else argument for argument in arguments]
    if getattr(_libc, name)(*plain):
        number = ctypes.get_errno()
        raise OSError(number, f"{name} {arguments[:2]}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str | None, flags: int = 0, data: str | None = None) -> None:
    _call("mount", source, target, kind, ctypes.c_ulong(flags), data)


def build(root: str, work: str, disk_mib: int) -> None:
    """Make the box's file system and enter it. `work`: an empty directory of this box's own."""
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    _mount("box", work, "tmpfs", _MS_NODEV, f"size={disk_mib}m,nr_inodes=50k,mode=755")
    upper, aside, merged = (os.path.join(work, name) for name in ("upper", "aside", "merged"))
    for place in (upper, aside, merged):
        os.mkdir(place, 0o755)
    layers = f"lowerdir={root},upperdir={upper},workdir={aside}"
    _mount("overlay", merged, "overlay", _MS_NODEV, layers)
    os.chdir(merged)
    _call("syscall", ctypes.c_long(_PIVOT_ROOT[os.uname().machine]), ".", ".")
    _call("umount2", ".", _MNT_DETACH)  # the old root lay on top of the new one
    os.chdir("/")
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _mount("dev", "/dev", "tmpfs", _MS_NOSUID | _MS_NOEXEC, "size=16m,nr_inodes=4k,mode=755")
    umask = os.umask(0)
    for name, (major, minor) in _DEVICES.items():
        os.mknod(f"/dev/{name}", 0o20666, os.makedev(major, minor))
    os.mkdir("/dev/shm", 0o1777)
    os.umask(umask)
    for name, target in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
        os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")
    for name in _READ_ONLY:
        if os.path.exists(f"/proc/{name}"):
            flags = _MS_BIND | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
            _mount(f"/proc/{name}", f"/proc/{name}", None, _MS_BIND | _MS_REC)
            _mount("none", f"/proc/{name}", None, flags | _MS_REMOUNT | _MS_RDONLY)
    for name in _COVERED:
        if os.path.exists(f"/proc/{name}"):
            _mount("/dev/null", f"/proc/{name}", None, _MS_BIND)
    socket.sethostname("box")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:  # the network within the box alone
        flags = struct.unpack("16xH", fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack("16sH", b"lo", 0)))[0]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH", b"lo", flags | _IFF_UP))


def confine() -> None:
    """Between fork and exec of a script: give up rights and set limits, for good."""
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_READ, capability, 0, 0, 0) == 1 and capability not in KEPT:
            _call("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
    low = sum(1 << capability for capability in KEPT)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)(low, low, 0, 0, 0, 0)  # effective, permitted, inheritable; 0-31, then 32-63
    _call("capset", header, sets)
    resource.setrlimit(resource.RLIMIT_AS, (PROCESS_MEMORY, PROCESS_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
    os.umask(0o022)


def _others() -> list[str]:
    """All processes of the box but this one."""
    return [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def crowded() -> str | None:
    """`processes` or `memory` if the box has too much of them."""
    pids = _others()
    if len(pids) > MOST_PROCESSES:
        return "processes"
    pages = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:  # codecs can't be loaded in the box
                pages += int(file.read().split()[1])
        except (OSError, IndexError):
            continue
    return "memory" if pages * resource.getpagesize() > MOST_MEMORY else None


class Scripts:
    """Runs scripts one at a time. Output of what a script left running is read, and dropped, ever after."""

    def __init__(self, owner: int) -> None:
        self._owner = owner
        self._old: list[int] = []
        self._rest = b""

    def run(self, script: str, seconds: float) -> dict[str, Any]:
        """Run to the end of the script's own process, or until it is stopped."""
        inner, outer = os.pipe()
        os.set_blocking(inner, False)
        try:
            process = subprocess.Popen(
                ["/bin/bash", "-c", script],
                stdin=subprocess.DEVNULL, stdout=outer, stderr=outer,
                cwd="/", env=_ENVIRONMENT, preexec_fn=confine, start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            os.close(inner)
            return {"code": 126, "output": f"bash can't be started: {error}", "stopped": None}
        finally:
            os.close(outer)
        kept = bytearray()
        deadline = time.monotonic() + seconds
        stopped = None
        while process.poll() is None:
            self._wait(inner, kept)
            self._reap(process.pid)
            stopped = stopped or crowded()
            if stopped is None and time.monotonic() > deadline:
                stopped = "time"
            if stopped == "time":
                _kill(-process.pid)
                _kill(process.pid)
            elif stopped:
                _kill(-1)
        if stopped in ("processes", "memory"):
            self._clear()
        while _drained(inner, kept):  # what is in the pipe at its end
            if len(kept) >= MOST_OUTPUT:
                break
        self._old.append(inner)
        output = bytes(kept[:MOST_OUTPUT]).decode("utf-8", "replace")
        return {"code": process.returncode, "output": output, "stopped": stopped}

    def _clear(self) -> None:
        """Until nobody is left of a crowd, that it isn't taken for the next script's; bounded."""
        end = time.monotonic() + CLEAR_S
        while _others() and time.monotonic() < end:
            _kill(-1)
            self._reap(0)
            time.sleep(LOOK_S / 10)

    def request(self) -> dict[str, Any] | None:
        """The owner's next request, while the box is looked after; None when the owner has gone."""
        while b"\n" not in self._rest:
            self._wait(None, bytearray())
            self._reap(0)
            if crowded():
                _kill(-1)
        line, _, self._rest = self._rest.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def _wait(self, current: int | None, kept: bytearray) -> None:
        """Until there is something to read, or the next look is due. Ends if the owner has."""
        watched = [self._owner, *self._old, *([] if current is None else [current])]
        for ready in select.select(watched, [], [], LOOK_S)[0]:
            if ready == self._owner:
                data = os.read(ready, 1 << 16)
                if not data:
                    sys.exit(0)
                self._rest += data
            elif ready == current:
                if not _drained(ready, kept):  # closed: the script ends now, or did that itself
                    time.sleep(LOOK_S / 10)
            elif not _drained(ready, bytearray()):
                os.close(ready)
                self._old.remove(ready)

    def _reap(self, mine: int) -> None:
        """Bury orphans, which process 1 inherits; `mine` is waited for by its own object."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or found.si_pid in (0, mine):
                return
            os.waitpid(found.si_pid, os.WNOHANG)


def _drained(pipe: int, kept: bytearray) -> bool:
    """Read once; keep what there is room for. False at the end, or if there is nothing now."""
    try:
        data = os.read(pipe, 1 << 16)
    except BlockingIOError:
        return False
    kept += data[: max(0, MOST_OUTPUT - len(kept))]
    return bool(data)


def _kill(who: int) -> None:
    try:
        os.kill(who, signal.SIGKILL)
    except ProcessLookupError:
        return


def main() -> None:
    """See the module's docstring."""
    root, work, disk_mib = sys.argv[1], sys.argv[2], int(sys.argv[3])
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # without a handler, the kernel shields process 1
    owner, replies = os.dup(0), os.dup(1)  # not inherited by scripts
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(null, standard)
    os.close(null)
    try:
        build(root, work, disk_mib)
    except OSError as error:
        os.write(replies, json.dumps({"failed": str(error)}).encode() + b"\n")
        return
    os.write(replies, b'{"ready": true}\n')
    scripts = Scripts(owner)
    while (request := scripts.request()) is not None:
        reply = scripts.run(request["script"], request["seconds"])
        os.write(replies, json.dumps(reply).encode() + b"\n")


if __name__ == "__main__":
    main()

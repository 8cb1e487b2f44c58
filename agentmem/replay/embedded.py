"""A real server process on a private socket: the default replay buffer.

Invariants: the password stands in files of mode 0600, never on a command line; every write is in an
append-only file before it is acknowledged, and that file is synced each second; nothing is ever evicted; a
data directory has one server at a time; the server ends with the process (and thread) that started it, and
one that is left over is ended at the next start. Re-opening a data directory brings back what was in it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from agentmem.failures import ReplayError
from agentmem.replay.binary import find_server
from agentmem.replay.durability import AppendOnlySync
from agentmem.replay.private import write_private

START_TIMEOUT_S = 60.0
"""Loading a large append-only file takes a while."""
STOP_TIMEOUT_S = 10.0
_PR_SET_PDEATHSIG = 1
_MAX_SOCKET_PATH = 100
"""The kernel's limit is 107 bytes."""


def _die_with_parent(parent: int) -> Callable[[], None]:
    libc = ctypes.CDLL(None, use_errno=True)

    def prepare() -> None:
        # SIGTERM, not SIGKILL: the server writes out what it has before it ends.
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent died in between
            os._exit(1)

    return prepare


def _start_time(pid: int) -> str | None:
    """When the kernel started this pid, so that a re-used pid isn't mistaken; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


class EmbeddedServer:
    """A server process that belongs to this one. Use as a context manager, or `start()` and `stop()`.

    `data_dir` is kept, and re-opened by the next server; without one, the data goes with the server.
    `tcp_host` makes it listen on TCP as well (with the same password), for other machines. Start it from a
    thread that lives as long as the server shall: Linux ends it together with that thread.
    `url` (one that an earlier server of this data directory had) takes the place of a server whose owner was
    killed: clients that know it find this one.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        *,
        maxmemory_bytes: int = 0,
        tcp_host: str | None = None,
        tcp_port: int = 0,
        append_only: bool = True,
        url: str = "",
    ) -> None:
        self._earlier = url
        self._keep = Path(data_dir).resolve() if data_dir is not None else None
        self._maxmemory, self._append_only = maxmemory_bytes, append_only
        self._tcp_host, self._tcp_port = tcp_host, tcp_port
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._sync: AppendOnlySync | None = None
        self._password = ""

    @property
    def url(self) -> str:
        """The URL on this machine."""
        return f"unix://:{self._password}@{self._socket}"

    @property
    def tcp_url(self) -> str:
        """The URL for other machines. Raises ReplayError if it doesn't listen on TCP."""
        if self._tcp_host is None:
            raise ReplayError("the embedded replay server doesn't listen on TCP: give it a tcp_host")
        return f"redis://:{self._password}@{self._tcp_host}:{self._tcp_port}/0"

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        if self._process is None:
            raise ReplayError("the embedded replay server isn't running")
        return self._process.pid

    @property
    def _socket(self) -> Path:
        if self._folder is None:
            raise ReplayError("the embedded replay server isn't running")
        return self._folder / "s"

    @property
    def _data(self) -> Path:
        if self._keep is not None:
            return self._keep
        if self._folder is None:
            raise ReplayError("the embedded replay server isn't running")
        return self._folder / "data"

    @property
    def alive(self) -> bool:
        """Is the process there?"""
        return self._process is not None and self._process.poll() is None

    def answers(self, within_s: float) -> bool:
        """Does it answer now?"""
        return self.alive and _answers(self._socket, self._password, within_s)

    def kill(self) -> None:
        """End it at once, also when it is frozen; `start` brings it back at the same URL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)

    def start(self) -> str:
        """Start it and wait until it answers; returns `url`. Raises ReplayError.

        A server that has died is started again at the same URL with what was on disk.
        """
        if self.alive:
            return self.url
        binary = find_server()
        if self._folder is None:
            self._prepare_folder()
        assert self._folder is not None
        self._end_left_over()
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [binary, self._folder / "conf"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent(os.getpid()),
                process_group=0,  # a Ctrl-C in the terminal must not end it before the last checkpoint
            )
        record = {"pid": self.pid, "started": _start_time(self.pid), "url": self.url}
        write_private(self._pid_file, json.dumps(record))
        self._wait_until_ready()
        if self._append_only and self._sync is None:
            self._sync = AppendOnlySync(self._data)
        return self.url

    def stop(self) -> None:
        """End it and wait; what was written is on disk. Harmless when it isn't running."""
        process, self._process = self._process, None
        sync, self._sync = self._sync, None
        if sync is not None:
            sync.stop()
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_TIMEOUT_S)
            if self._recorded()[0] == process.pid:
                self._pid_file.unlink()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> EmbeddedServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _pid_file(self) -> Path:
        return self._data / "server.json"

    def _take_over(self) -> None:
        """The folder, password and port of an earlier server."""
        parts = urlsplit(self._earlier)
        self._password = parts.password or ""
        if parts.scheme == "unix":
            self._folder = Path(parts.path).parent
        else:
            self._folder = Path(tempfile.mkdtemp(prefix="am-"))
            self._tcp_host, self._tcp_port = parts.hostname, parts.port or 0
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._data.mkdir(parents=True, exist_ok=True)
        (self._folder / "conf").unlink(missing_ok=True)
        self._write_config(self._folder / "conf")

    def _prepare_folder(self) -> None:
        if self._earlier:
            self._take_over()
            return
        self._folder = Path(tempfile.mkdtemp(prefix="am-"))
        if len(os.fsencode(self._folder)) > _MAX_SOCKET_PATH:
            self._folder.rmdir()
            self._folder = Path(tempfile.mkdtemp(prefix="am-", dir="/tmp"))
        self._data.mkdir(parents=True, exist_ok=True)
        self._password = secrets.token_urlsafe(24)
        if self._tcp_host is not None and self._tcp_port == 0:
            self._tcp_port = _free_port(self._tcp_host)
        self._write_config(self._folder / "conf")

    def _write_config(self, path: Path) -> None:
        network = (
            [f"bind {self._tcp_host}", f"port {self._tcp_port}", "protected-mode yes"]
            if self._tcp_host is not None
            else ["port 0"]
        )
        lines = [
            *network,
            f'unixsocket "{self._socket}"',
            "unixsocketperm 700",
            f"requirepass {self._password}",
            f'dir "{self._data}"',
            f"appendonly {'yes' if self._append_only else 'no'}",
            # With `everysec` the server holds writes back while a sync is in progress, though it has
            # acknowledged them, and loses them if it is killed then. So `AppendOnlySync` does the syncing.
            "appendfsync no",
            "auto-aof-rewrite-min-size 512mb",  # trials come and go: less would be rewritten all the time
            'save ""',
            f"maxmemory {self._maxmemory}",
            "maxmemory-policy noeviction",
            "databases 1",
            "daemonize no",
            'logfile ""',
        ]
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write("\n".join(lines) + "\n")

    def _recorded(self) -> tuple[int, str | None]:
        """The process (and its start time) that has this data directory open, as far as the record goes."""
        try:
            record = json.loads(self._pid_file.read_text())
            return int(record["pid"]), record["started"]
        except (OSError, ValueError, KeyError, TypeError):
            return 0, None

    def _end_left_over(self) -> None:
        """End a server that a killed process left on this data directory."""
        pid, started = self._recorded()
        end = time.monotonic() + STOP_TIMEOUT_S
        signals = signal.SIGTERM
        while started is not None and _start_time(pid) == started:
            if time.monotonic() > end:
                raise ReplayError(f"the server with pid {pid} still uses {self._data} and doesn't end")
            if time.monotonic() > end - STOP_TIMEOUT_S / 2:
                signals = signal.SIGKILL
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signals)
            time.sleep(0.02)

    def _wait_until_ready(self) -> None:
        process = self._process
        assert process is not None
        end = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < end:
            if process.poll() is not None:
                break
            if _answers(self._socket, self._password):
                return
            time.sleep(0.005)
        assert self._folder is not None
        lines = (self._folder / "log").read_text(errors="replace").strip().splitlines()[-3:]
        state = "ended at once" if process.poll() is not None else f"didn't answer in {START_TIMEOUT_S:g} s"
        self.stop()
        raise ReplayError(f"the embedded replay server {state}: {' | '.join(lines) or 'no output'}")


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host if host != "0.0.0.0" else "", 0))
        return int(probe.getsockname()[1])


def _answers(path: Path, password: str, within_s: float = 2.0) -> bool:
    """Does it answer a PING (and so has loaded its data)?"""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(within_s)
        try:
            probe.connect(str(path))
            probe.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            reply = b""
            while reply.count(b"\r\n") < 2:
                part = probe.recv(256)
                if not part:
                    return False
                reply += part
        except OSError:
            return False
    return reply.startswith(b"+OK\r\n+PONG")

"""How a replay server is set up, beyond what a buffer demands of it: for who asks before a run starts."""

from __future__ import annotations

import ipaddress
import time
from typing import Any
from urllib.parse import urlsplit

import msgspec

from agentmem.failures import ConfigError
from agentmem.replay.connect import Server
from agentmem.replay.keys import Keys


class ServerHealth(msgspec.Struct, frozen=True, kw_only=True):
    """One look."""

    shown: str
    """Its URL without a password."""
    product: str
    """`Redis 7.0.15`, `Valkey 9.1.2`."""
    append_only: bool
    maxmemory: int
    """Bytes; 0: no limit of its own."""
    used: int
    machine: int
    """Bytes of memory of its machine; 0: not told."""
    open_to_all: bool
    """It listens beyond its machine and asks for no password."""
    ahead_s: float
    """Its clock against ours."""


def health(url: str, *, deadline_s: float = 5.0) -> ServerHealth:
    """Ask a server. Raises ReplayError if it can't serve as a replay buffer, ConfigError for no URL."""
    server = Server(url, deadline_s=deadline_s)
    try:
        server.check()
        info: dict[str, Any] = server.call(server.client.info)
        before = time.time()
        seconds, micros = server.call(server.client.time)
        after = time.time()
    finally:
        server.close()
    valkey = info.get("valkey_version")
    parts = urlsplit(url)
    beyond = parts.scheme != "unix" and not is_loopback(parts.hostname or "localhost")
    return ServerHealth(
        shown=server.shown,
        product=f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version')}",
        append_only=bool(int(info.get("aof_enabled", 0))),
        maxmemory=int(info.get("maxmemory", 0)),
        used=int(info.get("used_memory", 0)),
        machine=int(info.get("total_system_memory", 0)),
        open_to_all=beyond and not parts.password,
        ahead_s=seconds + micros / 1e6 - (before + after) / 2,
    )


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def erase(url: str, run: str, *, deadline_s: float = 5.0) -> int:
    """Remove all keys of a run; their number. Only for runs that are known to be over."""
    if not run:
        raise ConfigError("no run is named: nothing is erased")
    server = Server(url, deadline_s=deadline_s)
    try:
        pattern = Keys(run).prefix.replace("[", "\\[").replace("*", "\\*").replace("?", "\\?") + "*"
        keys = list(server.call(lambda: list(server.client.scan_iter(match=pattern, count=1000))))
        for start in range(0, len(keys), 500):
            server.command("UNLINK", *keys[start : start + 500])
        return len(keys)
    finally:
        server.close()

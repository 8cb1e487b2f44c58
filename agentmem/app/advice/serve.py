"""`agentmem advise serve`: from a source to a listening process, and to its end.

What can't work is refused before the model is loaded: a port that is taken, a host that others reach without
a token. SIGTERM and Ctrl-C end it alike: no new questions, those under way are answered, exit status 0.
"""

from __future__ import annotations

import ipaddress
import math
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from agentmem.app.advice.source import Source, open_advisor
from agentmem.failures import ConfigError

SHORTEST_TOKEN = 16
BACKLOG = 2048


def serve(
    source: Source,
    *,
    host: str,
    port: int,
    token_env: str,
    longest_body: int,
    most: int,
    say: Callable[[str], object],
) -> None:
    """Serve until told to end. Raises AgentMemError."""
    try:
        import uvicorn

        from agentmem.app.advice.service import service
    except ImportError as error:
        missing = f'the package {error.name}: pip install "agentmem[serve]"'
        raise ConfigError(f"advise serve needs {missing}") from None
    token = token_of(host, token_env)
    with bound(host, port) as sock, open_advisor(source) as advisor:
        app = service(advisor, source.name, token=token, longest_body=longest_body, most=most)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=math.ceil(source.config.advice.timeout_s) + 5,
        )
        _leave_quietly()
        try:
            sock.listen(BACKLOG)  # not before: until then whoever looks is told that nobody is here yet
        except OSError as error:
            raise _taken(host, port, error) from error
        asked = "with a bearer token" if token else "without a token"
        say(f"advice of {source.name}: {address(sock)} ({asked}); Ctrl-C ends it")
        uvicorn.Server(config).run(sockets=[sock])


def token_of(host: str, variable: str) -> str:
    """The token that is asked for, out of the environment; empty: none. Raises ConfigError."""
    token = os.environ.get(variable, "").strip()
    if not token and not loopback(host):
        raise ConfigError(
            f"--host {host}: other machines reach it, so it asks for a token: set {variable} in the "
            "environment (or take 127.0.0.1)"
        )
    if token and len(token) < SHORTEST_TOKEN:
        raise ConfigError(f"the token in {variable} has {len(token)} characters: at least {SHORTEST_TOKEN}")
    if not token.isascii() or not token.isprintable():
        raise ConfigError(f"the token in {variable} holds characters that a request can't carry")
    return token


def loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bound(host: str, port: int) -> socket.socket:
    """A socket with this address, not listening yet. Raises ConfigError. Port 0 takes a free one."""
    try:
        (family, *_, where), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        sock = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, OverflowError) as error:
        raise _taken(host, port, error) from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
    except (OSError, OverflowError) as error:
        sock.close()
        raise _taken(host, port, error) from error
    return sock


def address(sock: socket.socket) -> str:
    """Where it can be asked."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _taken(host: str, port: int, error: Exception) -> ConfigError:
    return ConfigError(f"--port {port}: can't listen on {host}: {getattr(error, 'strerror', None) or error}")


def _leave_quietly() -> None:
    """The server hands the signals that ended it on to these once it has ended; then we end by ourselves."""

    def ended(*_: Any) -> None:
        pass

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ended)

"""A client that dies between two commands: the server has done what was sent before, nothing after."""

from collections.abc import Iterable
from typing import Any

from agentmem.replay import ReplayBuffer


class Died(BaseException):
    """The process is gone: no handler of its own may notice."""


def commands(wire: bytes) -> list[bytes]:
    """The single commands of what goes over the wire."""
    out, at = [], 0
    while at < len(wire):
        begin = at
        end = wire.index(b"\r\n", at)
        words, at = int(wire[at + 1 : end]), end + 2
        for _ in range(words):
            end = wire.index(b"\r\n", at)
            at = end + 2 + int(wire[at + 1 : end]) + 2
        out.append(wire[begin:at])
    return out


class Fuse:
    """Counts the commands of a buffer's client; burns after `arm(k)` more."""

    def __init__(self, buffer: ReplayBuffer) -> None:
        self.sent, self.left = 0, -1
        self._pool = buffer.server.client.connection_pool
        self._get = self._pool.get_connection
        self._pool.get_connection = self._connection

    def arm(self, k: int) -> None:
        self.left = k

    def disarm(self) -> None:
        self.left = -1

    @property
    def burnt(self) -> bool:
        return self.left == 0

    def _connection(self, *args: Any, **kwargs: Any) -> Any:
        connection = self._get(*args, **kwargs)
        if "send_packed_command" not in vars(connection):
            send = connection.send_packed_command

            def fused(wire: bytes | Iterable[bytes], *more: Any, **options: Any) -> None:
                whole = wire if isinstance(wire, bytes) else b"".join(bytes(part) for part in wire)
                parts = commands(whole)
                self.sent += len(parts)
                if self.left < 0 or len(parts) <= self.left:
                    self.left -= len(parts) if self.left >= 0 else 0
                    send([whole], *more, **options)
                    return
                done, self.left = parts[: self.left], 0
                if done:
                    send([b"".join(done)], *more, **options)
                    for _ in done:  # so that the server has done them before the test goes on
                        connection.read_response(disconnect_on_error=False)
                connection.disconnect()
                raise Died

            connection.send_packed_command = fused
        return connection

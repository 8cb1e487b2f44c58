"""Large values to and from a server without copies: how a command is packed, and how bulk replies are read.

The client library copies a large word twice when it sends it and a large reply three times when it reads it.
Here a word goes to the socket as it is, and replies are received in one reused buffer, of which the caller
gets views.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Arg = str | bytes | int | float | memoryview

LARGE_BYTES = 16 << 10
"""Words of this size are worth sending without a copy."""
RECEIVE_BYTES = 256 << 10
"""The most that one receive asks for: what is parsed next is then still in the cache."""
KEEP_BYTES = 8 << 20
"""A buffer that grew beyond this is given back after the reply."""
_OVERHEAD = 16
"""Bytes of a bulk reply besides its value, at most."""


class ReplyError(Exception):
    """The reply is an error of the server, or of another type than asked for: the connection is spoilt."""


def packed(words: Sequence[Arg]) -> list[bytes | memoryview]:
    """A command on the wire, in pieces: small words joined, large ones as they are."""
    pieces: list[bytes | memoryview] = []
    small: list[bytes | memoryview] = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes | memoryview) else str(word).encode()
        small.append(b"$%d\r\n" % len(data))
        if len(data) < LARGE_BYTES:
            small += [data, b"\r\n"]
        else:
            pieces += [b"".join(small), data]
            small = [b"\r\n"]
    pieces.append(b"".join(small))
    return pieces


def get_commands(keys: Sequence[str]) -> bytes:
    """A GET of each key, on the wire."""
    encoded = [key.encode() for key in keys]
    return b"".join([b"*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n" % (len(key), key) for key in encoded])


class BulkReader:
    """Receives replies of GET. One per thread; not to be shared."""

    def __init__(self) -> None:
        self._buffer = bytearray(1 << 20)
        self._start = self._end = 0  # of what was received and not yet handed out

    def forget(self) -> None:
        """A new connection, or a spoilt one: what was received of the old one is void."""
        self._start = self._end = 0
        if len(self._buffer) > KEEP_BYTES:
            self._buffer = bytearray(1 << 20)

    def read(self, socket: Any, count: int, expected_bytes: int) -> list[memoryview | None]:
        """The values of `count` replies, None for a key that isn't there.

        The views are valid until the next call. `expected_bytes` is a guess of their sum. Raises ReplyError,
        or what the socket raises; the connection must be dropped then.
        """
        self._room(expected_bytes + count * _OVERHEAD)
        values: list[memoryview | None] = []
        position = self._start
        while len(values) < count:
            line = self._buffer.find(b"\r\n", position, min(self._end, position + 512))
            if line < 0:
                position = self._receive(socket, position, 1)
                continue
            head = bytes(self._buffer[position:line])
            if head in (b"$-1", b"_"):
                values.append(None)
                position = line + 2
                continue
            if not (head.startswith(b"$") and head[1:].isdigit()):
                raise ReplyError(head[:200].decode(errors="replace"))
            size, begin = int(head[1:]), line + 2
            missing = begin + size + 2 - self._end
            if missing > 0:
                position = self._receive(socket, position, missing)
                continue
            values.append(memoryview(self._buffer)[begin : begin + size])
            position = begin + size + 2
        self._start = position
        return values

    def _room(self, needed: int) -> None:
        """Make room after what is left, which is moved to the front or to a larger buffer if it must be."""
        left = self._end - self._start
        if left and len(self._buffer) - self._start >= needed:
            return
        if needed > len(self._buffer):
            old = self._buffer
            self._buffer = bytearray(needed + (needed >> 2))
            self._buffer[:left] = memoryview(old)[self._start : self._end]
        elif left and self._start:
            self._buffer[:left] = bytes(memoryview(self._buffer)[self._start : self._end])
        self._start, self._end = 0, left

    def _receive(self, socket: Any, position: int, missing: int) -> int:
        """Receive `missing` bytes or more; returns where the reply at `position` starts now."""
        if self._end + missing > len(self._buffer):
            # The views handed out so far keep the old buffer alive.
            old, left = self._buffer, self._end - position
            self._buffer = bytearray(left + missing + RECEIVE_BYTES)
            self._buffer[:left] = memoryview(old)[position : self._end]
            position, self._end = 0, left
        room = memoryview(self._buffer)[self._end :]
        while missing > 0:
            got = socket.recv_into(room, min(len(room), RECEIVE_BYTES))
            if not got:
                raise ConnectionError("the server closed the connection")
            self._end += got
            room = room[got:]
            missing -= got
        return position

"""URL -> a checked server: reachable, authorised, new enough, and never evicting.

Every refusal is a ReplayError of one line that says what to do; a password is never part of it. Calls are
repeated over a lost connection with capped backoff until a total deadline; every script bears repetition.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from agentmem.failures import ConfigError, ReplayError
from agentmem.replay.wire import Arg, BulkReader, ReplyError, get_commands, packed

T = TypeVar("T")

MIN_VERSION = (6, 2)
"""XAUTOCLAIM."""
FIRST_BACKOFF_S, LAST_BACKOFF_S = 0.05, 2.0
READ_BYTES = 256 << 10
STAGED_S = 300
AHEAD_BYTES = 1 << 20
"""So much may be asked for before it is read: more only grows the server's output buffers."""
MAX_BLOCK_S = 1.0
"""The longest that one blocking command waits; well below the socket timeout."""


class ServerFullError(ReplayError):
    """The server has no memory for new data. Inserts wait; nothing was written."""


def without_password(url: str) -> str:
    """The URL as it may be logged."""
    return re.sub(r"(://)[^@/]*@", r"\1***@", url)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


class Server:
    """A connection pool to one checked server, and scripts on it. Safe to share between threads."""

    def __init__(
        self,
        url: str,
        *,
        socket_timeout_s: float = 10.0,
        connect_timeout_s: float = 5.0,
        deadline_s: float = 30.0,
    ) -> None:
        try:
            import redis
        except ImportError as error:
            raise ReplayError("the package redis isn't installed: pip install 'agentmem[run]'") from error
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        self.url, self.shown, self.deadline_s = url, without_password(url), deadline_s
        self._errors = redis.exceptions
        self._lost = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError)
        self._shas: dict[str, str] = {}
        self._local = threading.local()
        try:
            # The one retry loop is `call`: redis-py's own would hide a dead server for longer than told.
            self.client: Any = redis.Redis.from_url(
                url,
                socket_timeout=max(socket_timeout_s, 3 * MAX_BLOCK_S),
                socket_connect_timeout=connect_timeout_s,
                retry=Retry(NoBackoff(), 0),
                health_check_interval=0,
                socket_read_size=READ_BYTES,
                decode_responses=False,
            )
        except ValueError as error:
            raise ConfigError(
                f"replay URL {self.shown}: must start with redis://, rediss:// or unix:// ({error})"
            ) from error

    def check(self) -> None:
        """Raise ReplayError unless the server can serve as a replay buffer."""
        info: dict[str, Any] = self.call(self.client.info)
        found = str(info.get("valkey_version") or info.get("redis_version", "0"))
        if _version(found) < MIN_VERSION:
            raise ReplayError(f"replay server {self.shown} has version {found}: 6.2 or newer is needed")
        policy = str(info.get("maxmemory_policy", "noeviction"))
        if policy != "noeviction":
            raise ReplayError(
                f"replay server {self.shown} has maxmemory-policy {policy}, which would drop trials: "
                "set maxmemory-policy noeviction"
            )

    def call(self, command: Callable[[], T]) -> T:
        """Run `command`, again after a lost connection, until the deadline. Raises ReplayError."""
        errors = self._errors
        end, backoff = time.monotonic() + self.deadline_s, FIRST_BACKOFF_S
        while True:
            try:
                return command()
            except (errors.AuthenticationError, errors.NoPermissionError) as error:
                raise ReplayError(
                    f"replay server {self.shown} refused the user or password ({error})"
                ) from error
            except errors.NoScriptError:
                raise
            except errors.ResponseError as error:
                # From within a script it comes as a plain error with this word in it.
                full = isinstance(error, errors.OutOfMemoryError) or "OOM" in str(error)
                kind = ServerFullError if full else ReplayError
                raise kind(f"replay server {self.shown} answered: {error}") from error
            except (errors.ConnectionError, errors.TimeoutError, errors.BusyLoadingError, OSError) as error:
                if "NOAUTH" in str(error) or "WRONGPASS" in str(error):
                    raise ReplayError(f"replay server {self.shown} refused the password ({error})") from error
                if time.monotonic() + backoff > end:
                    raise ReplayError(
                        f"replay server {self.shown} can't be reached for {self.deadline_s:g} s "
                        f"({type(error).__name__}: {without_password(str(error))})"
                    ) from error
            time.sleep(backoff)
            backoff = min(2 * backoff, LAST_BACKOFF_S)

    def command(self, *words: Arg) -> Any:
        """One command; its reply as the client library shapes it."""
        return self.call(lambda: self.client.execute_command(*words))

    def _load(self, text: str) -> str:
        sha = self._shas.get(text)
        if sha is None:
            loaded = self.client.script_load(text)
            sha = self._shas[text] = loaded.decode() if isinstance(loaded, bytes) else str(loaded)
        return sha

    def script(self, text: str, key: str, args: Sequence[Arg]) -> Any:
        """Run a script by its digest; it is loaded when the server doesn't know it (first use, restart)."""

        def run() -> Any:
            try:
                return self.client.execute_command("EVALSHA", self._load(text), 1, key, *args)
            except self._errors.NoScriptError:
                self._shas.pop(text, None)  # another thread may have found out, too
                return self.client.execute_command("EVALSHA", self._load(text), 1, key, *args)

        return self.call(run)

    def _transaction(self, commands: Sequence[Sequence[Arg]]) -> list[Any]:
        """MULTI, the commands, EXEC; their replies (an error of a single one is raised).

        Large words go to the socket as they are: the client library would copy them twice.
        """
        wire = [piece for words in (("MULTI",), *commands, ("EXEC",)) for piece in packed(words)]
        pool = self.client.connection_pool
        connection = pool.get_connection()
        try:
            connection.send_packed_command(wire)
            refused: Exception | None = None
            for _ in range(len(commands) + 1):
                try:
                    connection.read_response()
                except self._errors.ResponseError as error:
                    refused = refused or error
            try:
                replies: list[Any] = connection.read_response()
            except self._errors.ResponseError as error:
                raise refused or error from None
        except self._errors.ResponseError:
            raise
        except BaseException:
            connection.disconnect()  # a half-sent command or an unread reply is on it
            raise
        finally:
            pool.release(connection)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    def insert_script(
        self, text: str, key: str, args: Sequence[Arg], staged: Mapping[str, bytes | memoryview]
    ) -> Any | None:
        """Like `script`, but None when the server has no memory for it (nothing was written then).

        The values `staged` are set in the same transaction, before the script, which must rename (and keep)
        or unlink them; what a client that dies leaves of them expires. A script's own arguments are copied
        twice on the server, which large payloads feel.
        """
        try:
            if not staged:
                return self.script(text, key, args)
            sets = [("SET", name, value, "EX", STAGED_S) for name, value in staged.items()]
            return self.call(
                lambda: self._transaction([*sets, ("EVALSHA", self._load(text), 1, key, *args)])[-1]
            )
        except self._errors.NoScriptError:  # the server restarted in between; what was staged is still there
            self.command("UNLINK", *staged)
            self._shas.pop(text, None)  # another thread may have found out, too
            return self.insert_script(text, key, args, staged)
        except ServerFullError:
            return None

    def fetch(self, batches: Sequence[Sequence[str]], sizes: Sequence[int]) -> Iterator[list[Any]]:
        """The values of each batch of string keys: bytes-like, or None for a key that isn't there.

        A value is a view that is valid until the next batch is asked for. The next batch is on its way while
        the caller works on this one. `sizes` are the expected bytes of each batch. Raises ReplayError.
        """
        done = 0
        while done < len(batches):
            try:
                for values in self._stream(batches[done:], sizes[done:]):
                    done += 1
                    yield values
            except (ReplyError, *self._lost):
                # The ordinary way, with its retries and its errors, gets what is left of this batch.
                if done < len(batches):
                    yield self.command("MGET", *batches[done])
                    done += 1

    def _stream(self, batches: Sequence[Sequence[str]], sizes: Sequence[int]) -> Iterator[list[Any]]:
        reader: BulkReader | None = getattr(self._local, "reader", None)
        # A second generator of the same thread must not disturb this one.
        self._local.reader = None
        reader = reader or BulkReader()
        reader.forget()
        pool = self.client.connection_pool
        connection = pool.get_connection()
        whole = False
        try:
            asked, ahead = 0, 0
            for n, keys in enumerate(batches):
                # At least one batch is on its way while the caller works on another.
                first = asked
                while asked < len(batches) and (asked < n + 2 or ahead + sizes[asked] <= AHEAD_BYTES):
                    ahead += sizes[asked]
                    asked += 1
                if asked > first:
                    self._ask(connection, [key for batch in batches[first:asked] for key in batch])
                ahead -= sizes[n]
                values = reader.read(connection._sock, len(keys), sizes[n])
                whole = n + 1 == len(batches)
                yield values
        finally:
            if not whole:
                connection.disconnect()  # unread replies are on it
            pool.release(connection)
            self._local.reader = reader

    @staticmethod
    def _ask(connection: Any, keys: Sequence[str]) -> None:
        connection.send_packed_command([get_commands(keys)])

    def wait_list(self, key: str, timeout_s: float) -> None:
        """Wait for a signal on a list, at most `timeout_s` (and at most `MAX_BLOCK_S`)."""
        wait = min(max(timeout_s, 0.01), MAX_BLOCK_S)
        self.call(lambda: self.client.blpop([key], timeout=wait))

    def close(self) -> None:
        """Close the pool."""
        self.client.close()

"""An episode's database on a MariaDB server: a database and an account of its own, removed afterwards.

The agent's statements run under an account that may do everything in the episode's database and nothing
outside it, so the account of the URL needs the right to create both. A statement that takes too long is
ended by the server, or, where the agent has switched that off, by an order from the other connection.

Each environment holds a named lock on the server. Databases whose lock is free belonged to a process that
died; the next environment that connects removes them.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from envs.lab.db.database import MOST_ROWS, Database, StatementError, Table, plain
from envs.options import EnvSetupError

if TYPE_CHECKING:
    import pymysql

_PREFIX = "agentmemlab"
_GRACE = 2.0
"""Seconds beyond a statement's time after which the server isn't waited for any more."""


def parse_url(url: str) -> dict[str, Any]:
    """`mysql://user:password@host:port` (or `mariadb://`) as arguments of a connection."""
    try:
        parts = urlsplit(url)
        port = parts.port or 3306
    except ValueError:
        raise EnvSetupError(f"option url={url!r}: must be mysql://user:password@host:port") from None
    if parts.scheme not in ("mysql", "mariadb") or not parts.hostname or parts.path not in ("", "/"):
        raise EnvSetupError(f"option url={url!r}: must be mysql://user:password@host:port")
    user, password = unquote(parts.username or "root"), unquote(parts.password or "")
    return {"host": parts.hostname, "port": port, "user": user, "password": password}


class Server:
    """The connection with the rights of the URL. It makes and removes the databases of one environment."""

    def __init__(self, url: str) -> None:
        import pymysql

        self.address = parse_url(url)
        self._where = f"{self.address['host']}:{self.address['port']}"
        try:
            self._connection = connect(self.address, read_timeout=60)
        except pymysql.Error as error:
            raise EnvSetupError(
                f"lab-db: no connection to MariaDB at {self._where} ({_said(error)}): "
                "start a server (Debian: mariadb-server), or leave the option url empty for SQLite"
            ) from None
        self.name = _PREFIX + secrets.token_hex(8)
        try:
            self.do("SELECT GET_LOCK(%s, 10)", self.name)
            self._sweep()
        except BaseException:
            self._connection.close()
            raise

    def do(self, statement: str, *values: Any) -> tuple[tuple[Any, ...], ...]:
        """Execute a statement of ours. An error is an `EnvSetupError`: the account lacks a right."""
        import pymysql

        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement, values or None)
                return tuple(cursor.fetchall())
        except pymysql.Error as error:
            raise EnvSetupError(f"lab-db: MariaDB at {self._where}: {_said(error)}") from None

    def cursor(self) -> Any:
        """A cursor in the episode's database."""
        return self._connection.cursor()

    def insert(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert many rows."""
        with self.cursor() as cursor:
            cursor.executemany(statement, rows)

    def _sweep(self) -> None:
        """Remove what processes that died have left. Another environment may do the same at the same time."""
        for (name,) in self.do("SHOW DATABASES LIKE %s", _PREFIX + "%"):
            ((free,),) = self.do("SELECT IS_FREE_LOCK(%s)", name)
            if free:
                self.drop(name)

    def drop(self, name: str) -> None:
        """Remove a database and its account, whose running statements are ended first."""
        for (thread,) in self.do("SELECT id FROM information_schema.processlist WHERE user = %s", name):
            with contextlib.suppress(EnvSetupError):  # it may have ended by itself
                self.do(f"KILL {int(thread)}")
        self.do(f"DROP DATABASE IF EXISTS `{name}`")
        self.do(f"DROP USER IF EXISTS '{name}'@'%'")

    def close(self) -> None:
        """End the connection, which frees the lock. Idempotent."""
        if self._connection.open:
            self._connection.close()


class MariaDatabase(Database):
    """See the module's docstring. `seconds`: the longest that a statement may take."""

    def __init__(self, server: Server, table: Table, seconds: float) -> None:
        self._server = server
        self._table = table
        self._seconds = seconds
        self._closed = False
        name = server.name
        self._account = {**server.address, "user": name, "password": secrets.token_hex(16)}
        server.drop(name)
        server.do(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        server.do(f"USE `{name}`")
        server.do(table.create())
        server.insert(table.insert("%s"), table.rows)
        server.do(f"CREATE USER '{name}'@'%%' IDENTIFIED BY %s", self._account["password"])
        server.do(f"GRANT ALL ON `{name}`.* TO '{name}'@'%'")
        self._connection = self._opened()

    def _opened(self) -> pymysql.Connection[Any]:
        connection = connect(self._account, read_timeout=self._seconds + _GRACE, database=self._server.name)
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION max_statement_time = %s", (self._seconds,))
        return connection

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """See `Database`."""
        import pymysql

        try:
            with self._connection.cursor(pymysql.cursors.SSCursor) as cursor:
                cursor.execute(statement.encode("utf-8", "replace").decode())
                rows = plain(cursor.fetchmany(MOST_ROWS))
                if len(rows) == MOST_ROWS:
                    self._again()
                return rows
        except pymysql.err.OperationalError as error:
            if error.args and error.args[0] in _GONE:
                self._again()
                raise StatementError(f"the statement was stopped after {self._seconds:g} s") from None
            raise StatementError(_said(error)) from None
        except (pymysql.Error, ValueError, TypeError) as error:
            raise StatementError(_said(error)) from None

    def _again(self) -> None:
        """Connect anew after a statement that didn't end, and end it."""
        thread = self._connection.thread_id()
        with contextlib.suppress(EnvSetupError):  # it may have ended by itself
            self._server.do(f"KILL {thread}")
        self._connection._force_close()
        self._connection = self._opened()

    def content(self) -> list[tuple[Any, ...]] | None:
        """See `Database`. Read with our own connection: the agent's may be in any state."""
        import pymysql

        try:
            with self._server.cursor() as cursor:
                cursor.execute(f"{self._table.select()} LIMIT {MOST_ROWS}")
                rows = plain(cursor.fetchall())
        except pymysql.Error:
            return None
        return rows if len(rows) < MOST_ROWS else None

    def close(self) -> None:
        """See `Database`."""
        if not self._closed:
            self._closed = True
            self._connection._force_close()
            self._server.drop(self._server.name)


_GONE = {2006, 2013}
"""The client's errors for a connection that was lost: the server killed it, or its answer didn't come."""


def connect(address: dict[str, Any], **more: Any) -> pymysql.Connection[Any]:
    """A connection that commits each statement and can't read files of ours."""
    import pymysql

    return pymysql.connect(
        **address, **more, connect_timeout=10, autocommit=True, charset="utf8mb4", local_infile=False
    )


def _said(error: Exception) -> str:
    """An error of the server or the client as one line."""
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    return " ".join(text.split()) or type(error).__name__

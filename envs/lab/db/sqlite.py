"""An episode's database in memory, behind bars.

The authoriser lets a statement touch the one database only: no files (ATTACH, VACUUM INTO), no settings
(PRAGMA), no extensions, no virtual tables. A progress handler ends what takes too long. It can't interrupt a
function, so SQLite's limits bound the length of values and patterns, and `printf`, which takes any width, is
forbidden. The number of pages and SQLite's heap bound memory. The heap limit (`HEAP`) holds for all uses of
SQLite in the process: that is how SQLite has it.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any

from envs.lab.db.database import MOST_ROWS, Database, StatementError, Table

HEAP = 256 << 20
_PAGES = (32 << 20) // 4096
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 20,
}
_FORBIDDEN = {
    sqlite3.SQLITE_ATTACH,
    sqlite3.SQLITE_DETACH,
    sqlite3.SQLITE_PRAGMA,
    sqlite3.SQLITE_CREATE_VTABLE,
    sqlite3.SQLITE_DROP_VTABLE,
}
_FORBIDDEN_FUNCTIONS = {"load_extension", "fts3_tokenizer", "printf", "format"}
_OPS_BETWEEN_LOOKS = 5_000


class SqliteDatabase(Database):
    """See the module's docstring. `seconds`: the longest that a statement may take."""

    def __init__(self, table: Table, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = 0.0
        self._table = table
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        for pragma in (f"hard_heap_limit={HEAP}", f"max_page_count={_PAGES}", "temp_store=MEMORY"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute(table.create())
        self._connection.executemany(table.insert("?"), table.rows)
        for limit, value in _LIMITS.items():
            self._connection.setlimit(limit, value)
        self._connection.set_authorizer(_allowed)
        self._connection.set_progress_handler(self._late, _OPS_BETWEEN_LOOKS)

    def _late(self) -> bool:
        return time.monotonic() > self._deadline

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """See `Database`."""
        self._deadline = time.monotonic() + self._seconds
        try:
            cursor = self._connection.execute(statement)
            try:
                return cursor.fetchmany(MOST_ROWS)
            finally:
                cursor.close()
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
            if self._late():
                raise StatementError(f"the statement was stopped after {self._seconds:g} s") from None
            raise StatementError(str(error) or type(error).__name__) from None

    def content(self) -> list[tuple[Any, ...]] | None:
        """See `Database`."""
        try:
            rows = self.run(self._table.select())
        except StatementError:
            return None
        return rows if len(rows) < MOST_ROWS else None

    def close(self) -> None:
        """See `Database`."""
        self._connection.close()


def _allowed(action: int, one: str | None, two: str | None, database: str | None, source: str | None) -> int:
    forbidden = action in _FORBIDDEN or (
        action == sqlite3.SQLITE_FUNCTION and str(two).lower() in _FORBIDDEN_FUNCTIONS
    )
    return sqlite3.SQLITE_DENY if forbidden else sqlite3.SQLITE_OK

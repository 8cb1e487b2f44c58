"""What the environment needs of a database engine: a table, one statement at a time, the table's content."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """A task's table. A column is its name and its type, which is INT or TEXT in every task."""

    name: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Table:
        """The table of a task of the benchmark's file."""
        info = entry["table_info"]
        columns = tuple((column["name"], column["type"]) for column in info["column_info_list"])
        return cls(info["name"], columns, tuple(tuple(row) for row in info["row_list"]))

    def create(self) -> str:
        """The statement that creates it, in words that both engines know."""
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in self.columns)
        return f"CREATE TABLE {quoted(self.name)} ({columns})"

    def insert(self, mark: str) -> str:
        """The statement that inserts a row, with this placeholder."""
        return f"INSERT INTO {quoted(self.name)} VALUES ({', '.join([mark] * len(self.columns))})"

    def select(self) -> str:
        """The statement that reads all of it."""
        return f"SELECT * FROM {quoted(self.name)}"


class StatementError(Exception):
    """The engine refused or stopped a statement. The message is what the agent sees."""


class Database(ABC):
    """One episode's database. Whatever is sent to `run`, nothing outside it changes, and `run` returns."""

    @abstractmethod
    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Execute one statement; its rows, at most `MOST_ROWS`. Raises `StatementError`."""

    @abstractmethod
    def content(self) -> list[tuple[Any, ...]] | None:
        """All rows of the task's table; None if it is gone or too large to be the task's any more."""

    @abstractmethod
    def close(self) -> None:
        """Remove it. Idempotent."""


MOST_ROWS = 10_000
"""Rows that are read of a result; the tables have 30."""


def quoted(name: str) -> str:
    """A name in backticks, which both engines understand."""
    return "`" + name.replace("`", "``") + "`"


def plain(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows with exact decimals as numbers, so that both engines show and compare alike."""
    from decimal import Decimal

    return [tuple(float(v) if isinstance(v, Decimal) else v for v in row) for row in rows]

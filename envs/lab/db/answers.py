"""How the benchmark judges: the rows of an answer in order, or the hash of the table's content."""

from __future__ import annotations

import ast
import hashlib
import math
import re
from collections.abc import Sequence
from typing import Any

Row = Sequence[Any]
_DECIMAL = re.compile(r"Decimal\(\s*(['\"])([^'\"]*)\1\s*\)")
_MOST = 50_000
"""Longest answer that is read, in characters; the longest right one has 3,000."""


def read_answer(text: str) -> list[tuple[Any, ...]] | None:
    """The rows written as a Python list of tuples; None if it is anything else."""
    if len(text) > _MOST:
        return None
    try:
        value = ast.literal_eval(_DECIMAL.sub(r"\2", text.strip()))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    if not isinstance(value, list | tuple) or not all(isinstance(row, list | tuple) for row in value):
        return None
    return [tuple(row) for row in value]


def same_rows(answer: Sequence[Row], expected: Sequence[Row]) -> bool:
    """Equal rows in equal order; numbers within a relative 10⁻⁶, everything else exactly."""
    return len(answer) == len(expected) and all(
        len(one) == len(other) and all(map(_same, one, other))
        for one, other in zip(answer, expected, strict=True)
    )


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-6)
    return type(one) is type(other) and bool(one == other)


def table_hash(rows: Sequence[Row]) -> str:
    """The hash of a table whatever the order of its rows.

    MD5 of the rows' own hashes, sorted and joined by commas, where a row's is the first five hex digits of
    the MD5 of its values joined by commas (NULL left out), as MySQL's CONCAT_WS and GROUP_CONCAT have it.
    """
    short = sorted(_md5(",".join(str(value) for value in row if value is not None))[:5] for row in rows)
    return _md5(",".join(short))


def _md5(text: str) -> str:
    return hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()

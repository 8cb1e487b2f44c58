"""Files of JSON lines that are appended to, also by a run that goes on after a crash."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Self

import msgspec

_encoder = msgspec.json.Encoder()


class LineWriter:
    """Appends lines. Opening cuts off a torn last line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")
        whole = path.read_bytes()
        end = whole.rfind(b"\n") + 1
        if end < len(whole):
            self._file.truncate(end)

    def write(self, records: Iterable[msgspec.Struct]) -> None:
        """One line each; they are with the operating system when this returns."""
        self._file.writelines(_encoder.encode(record) + b"\n" for record in records)
        self._file.flush()

    def close(self) -> None:
        """Idempotent."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

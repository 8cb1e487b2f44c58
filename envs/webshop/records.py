"""Lists of structs in files, read one at a time: `NAME.bin.npy` holds them packed, `NAME.at.npy` where each
begins.

The files are mapped: opening is quick however long the list is, and processes share the memory.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

T = TypeVar("T")


def mapped(path: Path) -> npt.NDArray[Any]:
    """An array that lies in a file."""
    return np.asarray(np.load(path, mmap_mode="r"))


def write(directory: Path, name: str, items: Iterable[object]) -> None:
    """Write a list."""
    packed = [msgspec.msgpack.encode(item) for item in items]
    ends = np.zeros(len(packed) + 1, dtype=np.int64)
    np.cumsum([len(item) for item in packed], out=ends[1:])
    np.save(directory / f"{name}.at.npy", ends)
    np.save(directory / f"{name}.bin.npy", np.frombuffer(b"".join(packed), dtype=np.uint8))


class Records(Generic[T]):
    """A written list: `len(records)`, `records[number]`. The last few thousand that were read are kept."""

    def __init__(self, directory: Path, name: str, kind: type[T]) -> None:
        self._at = mapped(directory / f"{name}.at.npy")
        self._bytes = mapped(directory / f"{name}.bin.npy")
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._get = functools.lru_cache(maxsize=4096)(self._read)

    def __len__(self) -> int:
        return len(self._at) - 1

    def __getitem__(self, number: int) -> T:
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self._get(number)

    def _read(self, number: int) -> T:
        start, end = self._at[number : number + 2].tolist()
        return self._decode(self._bytes[start:end].tobytes())

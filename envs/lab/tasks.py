"""The benchmark's tasks and their splits.

The benchmark has no training split: it plays one sequence of 500 tasks. Ours is fixed by a seed: a fifth of
the tasks is `eval`, and whether a task belongs to it depends on the seed and its id alone, so that it is
the same for all 500 tasks and for the validated ones.
"""

from __future__ import annotations

import json
import lzma
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

from envs.data import data_file
from envs.options import EnvSetupError


def entries(env: str, relative: str) -> dict[str, Any]:
    """The tasks of a file by id ("0" to "499"). Raises `EnvSetupError` if it is missing or broken."""
    return _entries(data_file(env, relative))


def ids(env: str, relative: str) -> tuple[str, ...]:
    """The ids in a file, ascending."""
    return _ids(data_file(env, relative))


def split_ids(every: tuple[str, ...], split: str, seed: int) -> tuple[str, ...]:
    """Those of a split, in the given order."""
    return tuple(one for one in every if (crc32(f"{seed}:{one}".encode()) % 5 == 0) == (split == "eval"))


@lru_cache(maxsize=4)
def _entries(path: Path) -> dict[str, Any]:
    try:
        with lzma.open(path) as file:
            found: dict[str, Any] = json.load(file)
    except (OSError, lzma.LZMAError, EOFError, ValueError) as error:
        raise EnvSetupError(f"{path} can't be read ({error}): fetch it again") from None
    return dict(sorted(found.items(), key=lambda item: int(item[0])))


@lru_cache(maxsize=4)
def _ids(path: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(json.loads(path.read_text(encoding="utf-8")), key=int))
    except (OSError, ValueError) as error:
        raise EnvSetupError(f"{path} can't be read ({error}): fetch it again") from None

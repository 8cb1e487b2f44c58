"""Checkpoint folders: complete or ignored.

A folder `step-00000050` under the root is complete when it holds `COMMIT.json`, which is written last (a file
renamed into place) and lists every other file with its size and SHA-256. Whatever died while saving leaves a
folder without a marker; whatever damaged a file later breaks a checksum. Both are passed over with a log
line, and the newest complete folder is taken.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentmem.failures import ConfigError

MARKER = "COMMIT.json"
FORMAT = 1

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint. `extra` is what the caller gave: task cursor, buffer cursor, …"""

    path: Path
    step: int
    extra: dict[str, Any]


def folder_of(root: Path, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return root / f"step-{step:08d}"


def begin(root: Path, step: int) -> Path:
    """An empty folder for the step; what an earlier attempt left there is removed."""
    folder = folder_of(root, step)
    if folder.exists():
        (folder / MARKER).unlink(missing_ok=True)  # first, so that a half-removed folder is never complete
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def commit(folder: Path, step: int, extra: dict[str, Any]) -> Checkpoint:
    """Make the folder complete. `extra` must be JSON; nothing may be written into the folder afterwards."""
    files = {
        str(file.relative_to(folder)): {"bytes": file.stat().st_size, "sha256": _digest(file, sync=True)}
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
    body = json.dumps({"format": FORMAT, "step": step, "files": files, "extra": extra}, indent=1)
    partial = folder / f".{MARKER}"
    with partial.open("w") as out:
        out.write(body)
        out.flush()
        os.fsync(out.fileno())
    partial.rename(folder / MARKER)
    _sync_folder(folder)
    return Checkpoint(folder, step, extra)


def problem_of(folder: Path) -> str | None:
    """Why a folder isn't a complete checkpoint; None if it is one."""
    marker = folder / MARKER
    if not marker.is_file():
        return "it was not finished (no commit marker)"
    try:
        body = json.loads(marker.read_text())
        files = body["files"].items()
        if body["format"] != FORMAT:
            return f"its format is {body['format']}, this program reads {FORMAT}"
    except (ValueError, KeyError, AttributeError) as error:
        return f"its commit marker can't be read ({error!r})"
    for name, facts in files:
        file = folder / name
        if not file.is_file():
            return f"{name} is missing"
        if file.stat().st_size != facts["bytes"] or _digest(file) != facts["sha256"]:
            return f"{name} is damaged"
    return None


def newest(root: Path) -> Checkpoint | None:
    """The newest complete checkpoint under `root`, None if there is none. Each one passed over is logged."""
    for folder in sorted(root.glob("step-*"), reverse=True):
        problem = problem_of(folder)
        if problem is None:
            return read(folder)
        log.warning("checkpoint %s is ignored: %s", folder, problem)
    return None


def read(folder: Path) -> Checkpoint:
    """A checkpoint that must be complete. Raises ConfigError with the reason if it isn't."""
    problem = problem_of(folder)
    if problem is not None:
        raise ConfigError(f"checkpoint {folder} can't be used: {problem}")
    body = json.loads((folder / MARKER).read_text())
    return Checkpoint(folder, int(body["step"]), body["extra"])


def prune(root: Path, keep: int) -> None:
    """Remove all but the `keep` newest complete checkpoints, and incomplete ones older than the newest
    complete.
    """
    if keep < 1:
        raise ValueError(f"keep is {keep}: must be >= 1")
    folders = sorted(root.glob("step-*"), reverse=True)
    kept = 0
    for folder in folders:
        if (folder / MARKER).is_file() and kept < keep:
            kept += 1
        elif kept:
            (folder / MARKER).unlink(missing_ok=True)
            shutil.rmtree(folder)


def _digest(file: Path, *, sync: bool = False) -> str:
    with file.open("rb") as data:
        if sync:
            os.fsync(data.fileno())
        return hashlib.file_digest(data, "sha256").hexdigest()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

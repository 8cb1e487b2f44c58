"""LifelongAgentBench's database tasks, on SQLite or MariaDB."""

from __future__ import annotations

from collections.abc import Sequence

from envs.base import Instance, PromptStyle
from envs.data import missing_files
from envs.lab.db.env import ENTRIES, LabDb
from envs.lab.db.options import Options
from envs.lab.db.text import DbStyle
from envs.lab.tasks import entries, ids, split_ids

__all__ = ["Options", "check", "instances", "make", "style"]

PORTABLE = "lab/db_ids_engine_independent.json"


def instances(options: Options, split: str) -> Sequence[Instance]:
    """The ids of a split, ascending."""
    name = LabDb.name
    every = ids(name, PORTABLE) if options.tasks == "portable" else tuple(entries(name, ENTRIES))
    return split_ids(every, split, options.split_seed)


def style(options: Options) -> PromptStyle:
    """The chat style of the tasks."""
    return DbStyle(options)


def make(options: Options) -> LabDb:
    """An environment that plays one task at a time."""
    return LabDb(options, style(options))


def check() -> list[str]:
    """What is missing, and how to get it."""
    return missing_files(LabDb.name, (ENTRIES, PORTABLE))

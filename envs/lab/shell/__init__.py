"""LifelongAgentBench's Linux tasks, each on a machine of its own: namespaces over a shared root directory."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from envs.base import Instance, PromptStyle
from envs.data import missing_files
from envs.lab.shell.box import lacking
from envs.lab.shell.env import ENTRIES, LabOs
from envs.lab.shell.options import Options
from envs.lab.shell.root import MISSING
from envs.lab.shell.text import ShellStyle
from envs.lab.tasks import entries, ids, split_ids

__all__ = ["Options", "check", "instances", "make", "style"]

VALIDATED = "lab/os_ids_validated_unshare.json"


def instances(options: Options, split: str) -> Sequence[Instance]:
    """The ids of a split, ascending."""
    name = LabOs.name
    every = ids(name, VALIDATED) if options.tasks == "validated" else tuple(entries(name, ENTRIES))
    return split_ids(every, split, options.split_seed)


def style(options: Options) -> PromptStyle:
    """The chat style of the tasks."""
    return ShellStyle(options)


def make(options: Options) -> LabOs:
    """An environment that plays one task at a time."""
    return LabOs(options, style(options))


def check() -> list[str]:
    """What is missing, and how to get it."""
    missing = lacking()
    if shutil.which("debootstrap") is None:
        missing.append(MISSING)
    return [*missing, *missing_files(LabOs.name, (ENTRIES, VALIDATED))]

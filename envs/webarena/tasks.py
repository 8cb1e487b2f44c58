"""WebArena's tasks, read from the package that has them, in whichever Python it is installed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from envs.interpreter import interpreter, package_directory
from envs.options import EnvSetupError
from envs.webarena import lite
from envs.webarena.options import TASKS, Options, listed


@dataclass(frozen=True, slots=True)
class Entry:
    """What must be known of a task to choose it. Its number is its place in `catalogue`."""

    sites: tuple[str, ...]
    evaluators: tuple[str, ...]
    judged: bool
    """Only a language model can tell whether an answer is right."""


@cache
def catalogue() -> tuple[Entry, ...]:
    """All tasks by id. Raises `EnvSetupError` if the package isn't installed."""
    from envs.registry import spec

    file = package_directory("webarena", interpreter(spec("webarena"))) / "test.raw.json"
    found = sorted(json.loads(file.read_text()), key=lambda task: task["task_id"])
    if [task["task_id"] for task in found] != list(range(TASKS)):
        raise EnvSetupError(f"webarena: {file} doesn't hold the {TASKS} tasks: install libwebarena 0.0.4")
    return tuple(
        Entry(
            tuple(task["sites"]),
            tuple(task["eval"]["eval_types"]),
            "fuzzy_match" in (task["eval"]["reference_answers"] or {}),
        )
        for task in found
    )


def chosen(options: Options, split: str) -> Sequence[int]:
    """The ids of a split that the options leave, ascending."""
    wanted = listed(options.task_ids)
    ids = range(TASKS) if wanted is None else sorted({int(number) for number in wanted})
    for number in () if wanted is None else ids:
        check_judge(options, number)
    sites, evaluators = listed(options.sites), listed(options.evaluators)
    held_out = set(lite.IDS)
    found = []
    for number in ids:
        entry = catalogue()[number]
        if (
            (number in held_out) is (split == "eval")
            and not needs_judge(options, entry)
            and (sites is None or set(entry.sites) <= set(sites))
            and (evaluators is None or set(entry.evaluators) <= set(evaluators))
        ):
            found.append(number)
    return found


def needs_judge(options: Options, entry: Entry) -> bool:
    """The task can't be scored as the options are."""
    return entry.judged and options.fuzzy == "exclude" and options.scoring == "webarena"


def check_judge(options: Options, number: int) -> None:
    """Raises `EnvSetupError` if the task can't be scored as the options are."""
    if needs_judge(options, catalogue()[number]):
        raise EnvSetupError(
            f"webarena: task {number} needs a judge: set fuzzy to judge, or scoring to verified, or drop it"
        )


def parsed(instance: object) -> int:
    """The id that an instance is. Raises `EnvSetupError` if it is none."""
    text = str(instance)
    if not (text.isascii() and text.isdigit() and int(text[:9]) < TASKS and len(text) < 9):
        raise EnvSetupError(f"webarena: no instance {text[:80]!r}: must be a number from 0 to {TASKS - 1}")
    return int(text)

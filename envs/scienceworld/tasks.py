"""The 30 tasks and their official splits, so that they can be listed without starting Java.

A task's variations are numbered through: the training ones first, then those for development, then those for
testing. A test compares this table with the simulator.
"""

from __future__ import annotations

from typing import Literal

Part = Literal["train", "dev", "test"]

#: Name of the task, and how many training, development and testing variations it has.
TASKS: dict[str, tuple[int, int, int]] = {
    "boil": (14, 7, 9),
    "change-the-state-of-matter-of": (14, 7, 9),
    "chemistry-mix": (16, 8, 8),
    "chemistry-mix-paint-secondary-color": (18, 9, 9),
    "chemistry-mix-paint-tertiary-color": (18, 9, 9),
    "find-animal": (150, 75, 75),
    "find-living-thing": (150, 75, 75),
    "find-non-living-thing": (150, 75, 75),
    "find-plant": (150, 75, 75),
    "freeze": (14, 7, 9),
    "grow-fruit": (62, 31, 33),
    "grow-plant": (62, 31, 33),
    "identify-life-stages-1": (6, 3, 5),
    "identify-life-stages-2": (4, 2, 4),
    "inclined-plane-determine-angle": (84, 42, 42),
    "inclined-plane-friction-named-surfaces": (692, 346, 348),
    "inclined-plane-friction-unnamed-surfaces": (80, 40, 42),
    "lifespan-longest-lived": (62, 31, 32),
    "lifespan-longest-lived-then-shortest-lived": (62, 31, 32),
    "lifespan-shortest-lived": (62, 31, 32),
    "measure-melting-point-known-substance": (218, 109, 109),
    "measure-melting-point-unknown-substance": (150, 75, 75),
    "melt": (14, 7, 9),
    "mendelian-genetics-known-plant": (60, 30, 30),
    "mendelian-genetics-unknown-plant": (240, 120, 120),
    "power-component": (10, 5, 5),
    "power-component-renewable-vs-nonrenewable-energy": (10, 5, 5),
    "test-conductivity": (450, 225, 225),
    "test-conductivity-of-unknown-substances": (300, 150, 150),
    "use-thermometer": (270, 135, 135),
}
ELECTRICAL = frozenset(task for task in TASKS if "power-component" in task or "conductivity" in task)
"""Tasks that can't be done without electrical actions."""


def variations(task: str, part: Part) -> range:
    """The numbers of a task's variations in an official split."""
    train, dev, test = TASKS[task]
    start = {"train": 0, "dev": train, "test": train + dev}[part]
    return range(start, start + {"train": train, "dev": dev, "test": test}[part])


def parsed(instance: object) -> tuple[str, int] | None:
    """Task and variation of `TASK/VARIATION`, or None if there is no such instance."""
    task, _, number = instance.partition("/") if isinstance(instance, str) else ("", "", "")
    if task not in TASKS or not number.isdecimal() or str(int(number)) != number:
        return None
    return (task, int(number)) if int(number) < sum(TASKS[task]) else None

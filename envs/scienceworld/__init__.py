"""ScienceWorld: elementary-school science in a simulated house, played in a Java process of one's own."""

from __future__ import annotations

from collections.abc import Sequence

from envs.base import Instance, PromptStyle
from envs.scienceworld.env import ScienceWorld
from envs.scienceworld.java import missing_java
from envs.scienceworld.options import Options
from envs.scienceworld.tasks import TASKS, variations
from envs.scienceworld.text import TextStyle

__all__ = ["Options", "check", "instances", "make", "style"]


def instances(options: Options, split: str) -> Sequence[Instance]:
    """`TASK/VARIATION` of the official split, task by task in ScienceWorld's order."""
    part = "train" if split == "train" else options.eval_split
    most = options.variations_per_task
    if split != "train":
        most = options.eval_variations_per_task or most
    return [
        f"{task}/{number}"
        for task in TASKS
        if not options.tasks or task in options.tasks
        for number in variations(task, part)[: most or None]
    ]


def style(options: Options) -> PromptStyle:
    """The chat style of the tasks."""
    return TextStyle(options)


def make(options: Options) -> ScienceWorld:
    """An environment that plays one task at a time."""
    return ScienceWorld(options, style(options))


def check() -> list[str]:
    """What is missing besides packages: Java."""
    missing = missing_java()
    return [missing] if missing else []

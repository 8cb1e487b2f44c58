"""MiniWoB++: 125 small tasks on a web page each, in a real browser."""

from __future__ import annotations

from collections.abc import Sequence

from envs.base import Instance
from envs.browser.actions import sample_action
from envs.browser.chromium import missing
from envs.browser.style import BrowserStyle
from envs.miniwob import tasks
from envs.miniwob.env import ACTIONS, MiniWob
from envs.miniwob.options import Options

__all__ = ["Options", "check", "instances", "make", "sample_action", "style"]

_ABOUT = "The page is small, and the task is done on it alone: it ends as soon as the page takes it as done."


def instances(options: Options, split: str) -> Sequence[Instance]:
    """`task/seed` for each chosen task and each seed of the split."""
    start, count = (
        (0, options.train_seeds)
        if split == "train"
        else (
            tasks.FIRST_EVAL_SEED,
            options.eval_seeds,
        )
    )
    return tasks.instances(tasks.chosen(options.tasks), range(start, start + count))


def style(options: Options) -> BrowserStyle:
    """The chat style."""
    return BrowserStyle(options, ACTIONS[options.actions], _ABOUT)


def make(options: Options) -> MiniWob:
    """An environment that plays one page at a time."""
    return MiniWob(options, style(options))


def check() -> list[str]:
    """Whether there is a browser."""
    return [f"miniwob: {line}" for line in missing()]

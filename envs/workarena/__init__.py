"""WorkArena: office tasks on a ServiceNow instance: lists, forms, orders, menus, knowledge, dashboards."""

from __future__ import annotations

from collections.abc import Sequence

from envs.base import Instance
from envs.browser import chromium
from envs.browser.actions import sample_action
from envs.browser.style import BrowserStyle
from envs.workarena import instance, tasks
from envs.workarena.env import ACTIONS, WorkArena
from envs.workarena.options import Options

__all__ = ["Options", "check", "instances", "make", "sample_action", "style"]

_ABOUT = (
    "The task is on an office's ServiceNow site, on which you are logged in already. If it asks a question, "
    "answer it by send_msg_to_user. It ends as soon as it is done."
)


def instances(options: Options, split: str) -> Sequence[Instance]:
    """`task/seed` for each task that the options leave and each seed of the split."""
    return tasks.instances(tasks.chosen(options.categories, options.tasks), split, options.train_seeds)


def style(options: Options) -> BrowserStyle:
    """The chat style."""
    return BrowserStyle(options, ACTIONS, _ABOUT)


def make(options: Options) -> WorkArena:
    """An environment that plays one task at a time."""
    return WorkArena(options, style(options))


def check() -> list[str]:
    """Whether there is a browser, and an instance."""
    lines = chromium.missing()
    lacking = instance.missing()
    if lacking:
        lines.append(f"no ServiceNow instance: set the environment variables {', '.join(lacking)}")
    return [f"workarena: {line}" for line in lines]

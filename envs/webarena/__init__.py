"""WebArena: 812 tasks on copies of real web sites (a shop, a forum, a code host, a map, an encyclopedia)."""

from __future__ import annotations

from collections.abc import Sequence

from envs.base import Instance
from envs.browser import chromium
from envs.browser.actions import sample_action
from envs.browser.style import BrowserStyle
from envs.webarena import sites, tasks
from envs.webarena.env import ACTIONS, REFUSAL, VerifiedWebArena, WebArena
from envs.webarena.options import Options

__all__ = ["Options", "check", "instances", "make", "sample_action", "style"]

_ABOUT = (
    "The task is on web sites on which you are logged in already. If it asks a question, answer it by "
    "send_msg_to_user with the answer alone. Your first message to the user ends the task, so send none "
    "before all is done. Stay on these sites."
)


def instances(options: Options, split: str) -> Sequence[Instance]:
    """The ids of the tasks of a split that the options leave."""
    return tasks.chosen(options, split)


def style(options: Options) -> BrowserStyle:
    """The chat style."""
    actions = ACTIONS if options.scoring == "verified" else (*ACTIONS, REFUSAL)
    return BrowserStyle(options, actions, _ABOUT)


def make(options: Options) -> WebArena:
    """An environment that plays one task at a time."""
    return (VerifiedWebArena if options.scoring == "verified" else WebArena)(options, style(options))


def check() -> list[str]:
    """Whether there is a browser, and an address for each site."""
    lines = chromium.missing()
    lacking = sites.missing(sites.SITES)
    if lacking:
        lines.append(
            f"no address for {', '.join(lacking)}: run the sites, and set these environment variables"
        )
    return [f"webarena: {line}" for line in lines]

"""WorkArena through BrowserGym, on a ServiceNow instance that somebody else runs.

The reward is the benchmark's, 0 or 1, and an episode ends with it. Each episode makes a user of its own on
the instance, with a theme of its own, and removes it afterwards; what the agent made there stays.
"""

from __future__ import annotations

from typing import ClassVar

from envs.base import Instance
from envs.browser.env import BrowserEnv, BrowserTask
from envs.workarena.instance import address
from envs.workarena.options import Options
from envs.workarena.tasks import parsed

ACTIONS = (
    "noop",
    "click",
    "dblclick",
    "hover",
    "fill",
    "select_option",
    "press",
    "focus",
    "clear",
    "keyboard_press",
    "scroll",
    "goto",
    "go_back",
    "go_forward",
    "send_msg_to_user",
)


class WorkArena(BrowserEnv):
    """One task at a time. See the module's docstring."""

    name: ClassVar[str] = "workarena"
    options: Options

    def task(self, instance: Instance) -> BrowserTask:
        """The task of this name and seed. Raises `EnvSetupError` if there is no instance to do it on."""
        name, seed = parsed(instance)
        address()
        from envs.workarena.task import task_class

        return BrowserTask(task_class(name), seed)

"""MiniWoB++ through BrowserGym: the same seed gives the same page as BrowserGym's.

The reward is 1 when the page takes the task as done with any reward above 0, else 0, as in BrowserGym; how
much time was taken doesn't count. `info["raw_reward"]` is the page's own, from -1 to 1, once the episode is
over. An episode has no end in time (a page's usual limit is ten seconds); see `clock` for how time passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

from envs.base import Instance
from envs.browser.env import BrowserEnv, BrowserTask, Verdict
from envs.miniwob import clock
from envs.miniwob.options import Options
from envs.miniwob.tasks import parsed

ACTIONS = {
    "all": (
        "noop",
        "mouse_move",
        "mouse_click",
        "mouse_dblclick",
        "mouse_down",
        "mouse_up",
        "scroll",
        "click",
        "keyboard_press",
        "keyboard_type",
        "fill",
    ),
    "elements": ("noop", "click", "fill"),
}
"""BrowserGym's `miniwob_all` and `miniwob_liu18`; it always allows `noop`."""

_NO_END_MS = 2_000_000_000


class MiniWob(BrowserEnv):
    """One page at a time. See the module's docstring."""

    name: ClassVar[str] = "miniwob"
    init_scripts = (clock.SCRIPT,)
    shows_address = False  # of a file, which lies elsewhere on every machine
    options: Options

    def task(self, instance: Instance) -> BrowserTask:
        """BrowserGym's task of this name."""
        name, seed = parsed(instance)
        arguments = {"base_url": _pages(), "episode_max_time": _NO_END_MS}
        return BrowserTask(partial(_timed(name), self.options.turn_ms), seed, arguments)

    def before_action(self, call: str) -> str:
        """What the page does in answer to the action is on its own clock, and so is waiting."""
        if not call.startswith("noop("):
            self.page.evaluate("agentmemClock.hold()")
            return call
        ms = float(call[len("noop(") : -1] or 1000)
        self.page.evaluate(f"agentmemClock.advance({ms})")
        return "noop(0)"

    def verdict(self, reward: float, over: bool, task_info: Mapping[str, Any]) -> Verdict:
        """BrowserGym's reward is 1 or 0."""
        raw = float(task_info.get("RAW_REWARD_GLOBAL", 0.0))
        return Verdict(float(reward), reward > 0, float(reward), {"raw_reward": raw})


@cache
def _timed(name: str) -> Any:
    """BrowserGym's class for this task, on the page's own clock."""
    from browsergym import miniwob

    (plain,) = [task for task in miniwob.ALL_MINIWOB_TASKS if task.subdomain == name]

    class Timed(plain):  # type: ignore[misc, valid-type]
        def __init__(self, turn_ms: int, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.locale, self.timezone_id = "en-US", "UTC"
            self._advance = f"agentmemClock.advance({turn_ms})"

        def setup(self, page: Any) -> tuple[str, dict[str, Any]]:
            goal, info = super().setup(page)
            page.evaluate(self._advance)
            return goal, info

        def validate(self, page: Any, chat_messages: list[Any]) -> tuple[float, bool, str, dict[str, Any]]:
            if page == self.page and page.url == self.url:
                page.evaluate(self._advance)
            found: tuple[float, bool, str, dict[str, Any]] = super().validate(page, chat_messages)
            return found

    return Timed


@cache
def _pages() -> str:
    """The address of the folder of pages, which the package miniwob carries."""
    import importlib.util

    found = importlib.util.find_spec("miniwob")
    assert found is not None
    assert found.origin is not None
    return (Path(found.origin).parent / "html" / "miniwob").as_uri() + "/"

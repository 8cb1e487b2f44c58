"""An environment in a browser: one BrowserGym task at a time, in a context of its own.

A benchmark is a subclass that says which BrowserGym task an instance is, and how it is scored:

    class MyBenchmark(BrowserEnv):
        name = "mybenchmark"

        def task(self, instance):                          # EnvSetupError if there is no such instance
            return BrowserTask(MyBrowserGymTask, seed=0, arguments={...})

        def verdict(self, reward, over, task_info): ...    # only if a reward above 0 isn't success

Its actions are its style's (`BrowserStyle(options, actions, about)`). `info` has `error` (of the last action;
empty: none) and, if the options ask for it, `screenshot` besides what every environment's has. An action that
can't be read, or that names an element which isn't there, is `invalid`. A failure of the browser or of a site
is an `EnvLost`; the next `reset` starts anew.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from envs.base import EnvLost, Info, Instance, TextEnv
from envs.browser.actions import read
from envs.browser.observation import Seen, brief_error, observe
from envs.browser.options import BrowserOptions
from envs.browser.process import BrowserProcess
from envs.browser.style import BrowserStyle
from envs.options import EnvSetupError


@dataclass(frozen=True, slots=True)
class BrowserTask:
    """What BrowserGym needs to begin an episode."""

    make: Callable[..., Any]
    """The class of the task (BrowserGym's AbstractBrowserTask), or a function that makes one."""
    seed: int = 0
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """For `make`, besides the seed."""
    context: Mapping[str, Any] = field(default_factory=dict)
    """For Playwright's `new_context`, such as `record_har_path`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a turn came to."""

    reward: float
    success: bool
    score: float
    """The benchmark's own."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What else `info` should tell."""


class BrowserEnv(TextEnv):
    """See the module's docstring."""

    style: BrowserStyle
    init_scripts: ClassVar[Sequence[str]] = ()
    """Run in every page before its own scripts."""
    shows_address: ClassVar[bool] = True
    """Whether observations tell the pages' addresses."""

    def __init__(self, options: BrowserOptions, style: BrowserStyle) -> None:
        self.options = options
        self.style = style
        self._process: BrowserProcess | None = None
        self._task: BrowserTask | None = None
        self._gym: Any = None
        self._seen = Seen("")
        self._error = ""
        self._over = True
        self._instruction = ""

    @abstractmethod
    def task(self, instance: Instance) -> BrowserTask:
        """The task that this instance is. Raises `EnvSetupError` if there is none."""

    def verdict(self, reward: float, over: bool, task_info: Mapping[str, Any]) -> Verdict:
        """What BrowserGym's reward of a turn means here."""
        return Verdict(float(reward), reward > 0, float(reward))

    def before_action(self, call: str) -> str:
        """Called before each action that is done; what is done instead."""
        return call

    @property
    def page(self) -> Any:
        """The active page (Playwright's), while an episode runs."""
        return self._gym.page

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What was said in this episode (see `process.Messages`)."""
        found: list[dict[str, Any]] = self._gym.chat.messages
        return found

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        """Start the task of `options["instance"]`."""
        instance = (options or {}).get("instance")
        if instance is None:
            raise EnvSetupError(f"{self.name}: reset needs options={{'instance': ...}}")
        self._task = self.task(instance)
        return self.restart()

    def restart(self) -> tuple[str, Info]:
        """The same task again, in a fresh context."""
        if self._task is None:
            raise EnvSetupError(f"{self.name}: restart before reset")
        self._leave()
        with self._losses():
            raw = self._begin(self._task)
            self._seen = self._look(raw)
        self._instruction = raw["goal"] or ""
        self._over = False
        self._error = ""
        return self._seen.text, self._info(Verdict(0.0, False, 0.0))

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        """Do one action."""
        call = None if self._over else read(action, self.style.actions)
        if call is None:
            self._error = "the episode is over" if self._over else "no action in the asked form"
            return self._seen.text, 0.0, self._over, False, self._info(Verdict(0.0, False, 0.0), invalid=True)
        with self._losses():
            raw, reward, over, _, info = self._gym.step(self.before_action(call))
            self._seen = self._look(raw)
            verdict = self.verdict(reward, over, info["task_info"])
        self._over = bool(over)
        self._error = brief_error(raw["last_action_error"])
        # BrowserGym raises it before anything is done, for an element that isn't there.
        invalid = self._error.startswith("ValueError: Could not find element")
        return self._seen.text, verdict.reward, self._over, False, self._info(verdict, invalid=invalid)

    def close(self) -> None:
        """End the episode and, if no other environment of this process uses it, the browser."""
        self._leave()
        process, self._process = self._process, None
        if process is not None:
            process.release()

    def _begin(self, task: BrowserTask) -> dict[str, Any]:
        """Start BrowserGym's environment for this task; its first observation."""
        from browsergym.core.env import BrowserEnv as GymEnv

        if self._process is None:
            self._process = BrowserProcess.acquire(self.options.chromium)
        self._process.init_scripts = self.init_scripts
        self._gym = GymEnv(
            task_entrypoint=task.make,
            task_kwargs=dict(task.arguments),
            slow_mo=0,
            pw_context_kwargs=dict(task.context),
            action_mapping=_action_set(self.options.action_timeout_s).to_python_code,
            use_raw_page_output=True,
            pre_observation_delay=self.options.pre_observation_delay_s,
        )
        raw: dict[str, Any] = self._gym.reset(seed=task.seed)[0]
        return raw

    def _look(self, raw: dict[str, Any]) -> Seen:
        return observe(raw, self.options, address=self.shows_address)

    def _leave(self) -> None:
        """End the present episode, if there is one."""
        gym, self._gym = self._gym, None
        self._over = True
        if gym is None:
            return
        # Of a browser that died nothing can be closed, and a site that doesn't answer can't be tidied up.
        with contextlib.suppress(Exception):
            gym.close()
        with contextlib.suppress(Exception):
            if gym.context is not None:
                gym.context.close()

    def _info(self, verdict: Verdict, *, invalid: bool = False) -> Info:
        info: Info = {
            "success": verdict.success,
            "invalid": invalid,
            "score": verdict.score,
            "instruction": self._instruction,
            "error": self._error,
            **verdict.more,
        }
        if self._seen.picture is not None:
            info["screenshot"] = self._seen.picture
        return info

    @contextlib.contextmanager
    def _losses(self) -> Iterator[None]:
        """Report what Playwright raises outside an action as the loss that it is, and end the episode."""
        import playwright.sync_api

        try:
            yield
        except playwright.sync_api.Error as error:
            self._leave()
            raise EnvLost(f"{self.name}: {brief_error(str(error))}") from error
        except BaseException:
            self._leave()
            raise


@cache
def _action_set(timeout_s: float) -> Any:
    """BrowserGym's whole set (`read` has narrowed it before), with this time for an element to be ready."""
    from browsergym.core.action.highlevel import HighLevelActionSet

    subsets = ["chat", "infeas", "bid", "coord", "nav", "tab"]
    made = HighLevelActionSet(subsets, multiaction=False, strict=True)
    assert "timeout=500" in made.python_includes
    made.python_includes = made.python_includes.replace("timeout=500", f"timeout={timeout_s * 1000:.0f}")
    return made

"""WebArena through BrowserGym, on sites that somebody else runs.

The reward is the benchmark's score of a turn, 0 or 1. An episode ends when it is above 0, when the agent
answers (`send_msg_to_user`, or `report_infeasible`, which counts as "N/A"), or with 0 as soon as a page of
another site is open. Each episode logs in anew in a fresh context; what an agent changed on a site stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from envs.base import Instance
from envs.browser.chromium import Scratch
from envs.browser.env import BrowserEnv, BrowserTask, Verdict
from envs.browser.style import BrowserStyle
from envs.webarena.options import Options
from envs.webarena.sites import addresses, fill_surroundings
from envs.webarena.tasks import catalogue, check_judge, parsed

ACTIONS = (
    "noop",
    "click",
    "dblclick",
    "hover",
    "fill",
    "select_option",
    "press",
    "keyboard_press",
    "scroll",
    "goto",
    "go_back",
    "go_forward",
    "new_tab",
    "tab_close",
    "tab_focus",
    "send_msg_to_user",
)
REFUSAL = "report_infeasible"


class WebArena(BrowserEnv):
    """WebArena's own tasks and evaluators."""

    name: ClassVar[str] = "webarena"
    options: Options

    def __init__(self, options: Options, style: BrowserStyle) -> None:
        from envs.webarena.judge import Judge

        super().__init__(options, style)
        self._judge = Judge(options) if options.fuzzy == "judge" and options.scoring == "webarena" else None

    def task(self, instance: Instance) -> BrowserTask:
        """The task of this id. Raises `EnvSetupError` if its sites have no address."""
        from envs.webarena.evaluation import have_sentences

        arguments = self._arguments(parsed(instance))
        fill_surroundings()
        have_sentences()
        from envs.webarena.task import Task

        return BrowserTask(Task, arguments=arguments)

    def close(self) -> None:
        """End the episode and what was started for it."""
        super().close()
        judge, self._judge = self._judge, None
        if judge is not None:
            judge.close()

    def _arguments(self, number: int) -> dict[str, Any]:
        check_judge(self.options, number)
        entry = catalogue()[number]
        needed = [*entry.sites, *(["homepage"] if self.options.homepage_hint else [])]
        return {
            "task_id": number,
            "addresses": addresses(needed),
            "judge": self._judge,
            "judged": entry.judged,
            "wait_s": self.options.evaluator_wait_s,
            "with_na_hint": self.options.na_hint,
            "with_homepage_hint": self.options.homepage_hint,
        }


class VerifiedWebArena(WebArena):
    """The tasks of webarena-verified, scored once the agent has answered, 0 without an answer."""

    def __init__(self, options: Options, style: BrowserStyle) -> None:
        super().__init__(options, style)
        self._scratch: Scratch | None = None
        self._number = 0
        self._verifier: Any = None

    def task(self, instance: Instance) -> BrowserTask:
        """The task of this id, with a record of what the browser sends."""
        from envs.webarena.evaluation import have_sentences
        from envs.webarena.verified import Verifier

        self._number = parsed(instance)
        arguments = self._arguments(self._number)
        fill_surroundings()
        have_sentences()
        from envs.webarena.task import AnsweredTask

        if self._scratch is None:
            self._scratch = Scratch()
            self._verifier = Verifier(arguments["addresses"])
        arguments["verified"] = self._verifier.task(self._number)
        return BrowserTask(
            AnsweredTask, arguments=arguments, context={"record_har_path": self._scratch.path / "sent.har"}
        )

    def verdict(self, reward: float, over: bool, task_info: Mapping[str, Any]) -> Verdict:
        """The record is written when the context closes, so that comes first."""
        if not over or self._scratch is None:
            return Verdict(0.0, False, 0.0)
        self._gym.context.close()
        score = self._verifier.score(self._number, task_info["answer"], self._scratch.path / "sent.har")
        return Verdict(score, score > 0, score)

    def close(self) -> None:
        """End the episode and remove the record."""
        super().close()
        scratch, self._scratch = self._scratch, None
        if scratch is not None:
            scratch.close()

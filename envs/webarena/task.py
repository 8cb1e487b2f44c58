"""BrowserGym's WebArena task: which site failed is said, and nothing is left behind.

Imported only where the packages are (see `envs/interpreter.py`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import playwright.sync_api
import requests
from browsergym.webarena.task import GenericWebArenaTask

from envs.base import EnvLost
from envs.browser.observation import brief_error
from envs.webarena.evaluation import Evaluation
from envs.webarena.judge import Judge
from envs.webarena.sites import site_in
from envs.webarena.verified import VerifiedTask

NAME = "webarena"


class Task(GenericWebArenaTask):  # type: ignore[misc]
    """One of the 812 tasks."""

    evaluator: Any
    """Called by `validate` (BrowserGym's)."""
    task_configs: list[dict[str, Any]]
    """What the benchmark says of the task; BrowserGym would choose among several."""

    def __init__(
        self,
        seed: int,
        task_id: int,
        addresses: Mapping[str, str],
        judge: Judge | None,
        judged: bool,
        wait_s: float,
        **hints: bool,
    ) -> None:
        super().__init__(seed, task_id=task_id, **hints)
        self._addresses = dict(addresses)
        self._judge, self._judged, self._wait_s = judge, judged, wait_s
        self._at: str = self.task_configs[0]["sites"][0]
        self._log_in = self.webarena_instance.ui_login
        self.webarena_instance.ui_login = self._named_log_in

    def setup(self, page: Any) -> tuple[str, dict[str, Any]]:
        """Log in to the task's sites and open where it starts. Raises `EnvLost` naming a site that failed."""
        with self._naming():
            goal, info = super().setup(page)
        self.evaluator = Evaluation(
            self.evaluator, judge=self._judge, judged=self._judged, wait_s=self._wait_s
        )
        return goal, info

    def validate(self, page: Any, chat_messages: list[Any]) -> tuple[float, bool, str, dict[str, Any]]:
        """The score of the turn. Raises `EnvLost` naming the site if one failed that must be looked at."""
        with self._naming():
            found: tuple[float, bool, str, dict[str, Any]] = super().validate(page, chat_messages)
        return found

    def teardown(self) -> None:
        """Remove the file that BrowserGym made of the task."""
        if self.config_file:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.config_file)

    def _named_log_in(self, site: str, page: Any) -> None:
        self._at = site
        self._log_in(site=site, page=page)

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except (playwright.sync_api.Error, requests.RequestException) as error:
            site = site_in(str(error), self._addresses, self._at)
            place = self._addresses.get(site, "an unknown address")
            raise EnvLost(f"{NAME}: the site {site} at {place} failed: {brief_error(str(error))}") from error


class AnsweredTask(Task):
    """A task that is scored by webarena-verified when it is over: a turn has no score of its own."""

    def __init__(self, seed: int, verified: VerifiedTask, **arguments: Any) -> None:
        super().__init__(seed, **arguments)
        (config,) = self.task_configs
        starts = " |AND| ".join(verified.start_urls)
        self.task_configs = [{**config, "intent": verified.goal, "start_url": starts}]

    def validate(self, page: Any, chat_messages: list[Any]) -> tuple[float, bool, str, dict[str, Any]]:
        """Over as soon as the agent has answered."""
        last = chat_messages[-1]
        if last["role"] != "assistant":
            return 0.0, False, "", {}
        return 0.0, True, "", {"answer": last["message"]}

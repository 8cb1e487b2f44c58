"""WorkArena's tasks with quicker waits: the instance's failures are losses, and its users are removed.

Imported only where the packages are (see `envs/interpreter.py`).

WorkArena waits half a second after each record that it makes before it looks whether it is there. Here it
looks at once, and then at the same intervals. (Its wait of three seconds before it looks at an order stays:
it looks only once.) Its menu task leaves the user behind that was made for it; here each is removed.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

import playwright.sync_api
import requests
from browsergym import workarena
from browsergym.workarena.api import utils as api
from browsergym.workarena.tasks.base import AbstractServiceNowTask

from envs.base import EnvLost
from envs.browser.observation import brief_error
from envs.options import EnvSetupError
from envs.workarena.instance import address

FIRST_WAIT_S = 0.02
"""How long it waits before it looks for the first time."""
_PREFIX = "workarena.servicenow."
_REFUSED = (
    "workarena: the instance at {} refused: check SNOW_INSTANCE_UNAME and SNOW_INSTANCE_PWD, and that this "
    "user is an administrator"
)


class _Waits:
    """In place of `sleep` in WorkArena's calls of the instance: the first wait for a record is short."""

    def __init__(self) -> None:
        self.first = True

    def __call__(self, seconds: float) -> None:
        time.sleep(FIRST_WAIT_S if self.first else seconds)
        self.first = False


def _hasten() -> None:
    """Bind the waits of WorkArena's modules anew. Idempotent."""
    if isinstance(api.sleep, _Waits):
        return
    waits, call = _Waits(), api.table_api_call

    def asked(*given: Any, **named: Any) -> Any:
        if named.get("method", "GET") != "GET" or named.get("wait_for_record"):
            waits.first = True
        try:
            return call(*given, **named)
        except KeyError:  # it looks at the answer before it looks whether it was refused
            raise EnvSetupError(_REFUSED.format(address())) from None

    api.sleep = waits
    _rebind("table_api_call", call, asked)


def _rebind(name: str, old: Any, new: Any) -> None:
    """Every module of WorkArena's that has this function by this name gets the other one."""
    for place, module in list(sys.modules.items()):
        if place.startswith("browsergym.workarena") and getattr(module, name, None) is old:
            setattr(module, name, new)


@cache
def task_class(name: str) -> Any:
    """WorkArena's class of a task, as the module's docstring says."""
    _hasten()
    (plain,) = [task for task in workarena.ATOMIC_TASKS if task.get_task_id() == _PREFIX + name]

    class Task(plain):  # type: ignore[misc, valid-type]
        def __init__(self, seed: int) -> None:
            self.delete_user_on_teardown = False
            with _naming():
                super().__init__(seed=seed)

        def setup(self, page: Any, do_start: bool = True) -> tuple[str, dict[str, Any]]:
            with _naming():
                goal, info = super().setup(page=page, do_start=do_start)
            return goal, info

        def validate(self, page: Any, chat_messages: list[Any]) -> tuple[float, bool, str, dict[str, Any]]:
            with _naming():
                found: tuple[float, bool, str, dict[str, Any]] = super().validate(page, chat_messages)
            return found

        def teardown(self) -> None:
            made, self.delete_user_on_teardown = self.delete_user_on_teardown, False
            try:
                super().teardown()  # the records of the task, if it remembers to
            finally:
                if made:
                    self.delete_user_on_teardown = True
                    AbstractServiceNowTask.teardown(self)
                    self.delete_user_on_teardown = False

    return Task


@contextlib.contextmanager
def _naming() -> Iterator[None]:
    """Report the instance's failures as what they are. WorkArena tells several by a plain RuntimeError."""
    try:
        yield
    except (playwright.sync_api.Error, requests.RequestException, RuntimeError) as error:
        if getattr(getattr(error, "response", None), "status_code", None) in (401, 403):
            raise EnvSetupError(_REFUSED.format(address())) from error
        if isinstance(error, EnvLost):
            raise
        raise EnvLost(f"workarena: the instance at {address()} failed: {brief_error(str(error))}") from error

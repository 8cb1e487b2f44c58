"""The one browser of this process: started when first needed, kept while anybody uses it, lent to BrowserGym.

BrowserGym starts a browser for each episode, and a second one for its chat. Here both are replaced by what
they are needed for: launching lends the browser that runs already, closing it gives it back, each episode has
a fresh context of its own, and the chat is a list of messages. BrowserGym's launch settings are kept, but for
its delay between actions. A browser that has died is started anew when it is next needed.

Playwright's synchronous interface works on the thread that started it alone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from envs.browser.chromium import FLAGS, Scratch, executable, mortal
from envs.options import EnvSetupError


class Messages:
    """In place of BrowserGym's chat: what was said, oldest first."""

    _KEPT = ("user", "user_image", "assistant", "infeasible")

    def __init__(self, *_: object, **__: object) -> None:
        self.messages: list[dict[str, Any]] = []
        self.recording_start_time = None

    def add_message(self, role: str, msg: str) -> None:
        """Remember it, unless it is for the eyes of a person at the chat only (role `info`)."""
        if role in self._KEPT:
            self.messages.append({"role": role, "timestamp": time.time(), "message": msg})

    def wait_for_user_message(self) -> None:
        """Nobody is there to say anything."""

    def close(self) -> None:
        """Nothing to close."""


class BrowserProcess:
    """Playwright's driver and Chromium. `acquire` and `release` it; the last one to release it ends it."""

    _running: ClassVar[BrowserProcess | None] = None

    def __init__(self, chromium: str) -> None:
        import browsergym.core
        import browsergym.core.env as browsergym_env
        from playwright._impl._driver import compute_driver_executable
        from playwright.sync_api import sync_playwright

        self.named = chromium
        self.users = 0
        self.init_scripts: Sequence[str] = ()
        """Run in every page of contexts made from now on, before the page's own scripts."""
        self._executable = mortal(executable(chromium))
        self._browser: Any = None
        self._scratch = Scratch()
        node = Path(compute_driver_executable()[0])
        try:
            with _surroundings(PLAYWRIGHT_NODEJS_PATH=str(mortal(node)), TMPDIR=str(self._scratch.path)):
                self._playwright = sync_playwright().start()
        except BaseException:
            self._scratch.close()
            raise
        self.selectors = self._playwright.selectors
        self.chromium = self
        browsergym.core._set_global_playwright(self)
        browsergym_env.Chat = Messages
        # It warns at each reset that the delay between actions was changed.
        logging.getLogger("browsergym").setLevel(logging.ERROR)

    @classmethod
    def acquire(cls, chromium: str = "") -> BrowserProcess:
        """The process's browser, started if need be."""
        if cls._running is None:
            cls._running = cls(chromium)
        elif cls._running.named != chromium:
            raise EnvSetupError(
                f"option chromium={chromium!r}: must be {cls._running.named!r}, as in this process before"
            )
        cls._running.users += 1
        return cls._running

    def release(self) -> None:
        """Give it back."""
        self.users -= 1
        if self.users == 0:
            BrowserProcess._running = None
            self._end()

    def launch(self, **settings: Any) -> Lent:
        """What BrowserGym calls to start a browser: lends the running one."""
        if self._browser is None or not self._browser.is_connected():
            settings["args"] = [*settings.get("args", ()), *FLAGS]
            settings["slow_mo"] = 0
            self._browser = self._playwright.chromium.launch(
                executable_path=str(self._executable), **settings
            )
        return Lent(self, self._browser)

    def _end(self) -> None:
        import browsergym.core

        browsergym.core._set_global_playwright(None)
        with contextlib.suppress(Exception):  # a browser that died can't be closed
            if self._browser is not None:
                self._browser.close()
        try:
            self._playwright.stop()
        finally:
            self._scratch.close()


class Lent:
    """The running browser, lent for an episode."""

    def __init__(self, process: BrowserProcess, browser: Any) -> None:
        self._process, self._browser = process, browser

    def new_context(self, **settings: Any) -> Any:
        """A fresh context, with the init scripts of the process."""
        context = self._browser.new_context(**settings)
        for script in self._process.init_scripts:
            context.add_init_script(script)
        return context

    def close(self) -> None:
        """Give it back; it goes on running."""


@contextlib.contextmanager
def _surroundings(**variables: str) -> Iterator[None]:
    """These environment variables, for what is started meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

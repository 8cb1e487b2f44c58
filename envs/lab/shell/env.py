"""A task on a Linux machine, to be done by bash. Every episode has a machine of its own (`box.py`).

An episode is the task's own preparation, up to `max_rounds` scripts of the agent's, and the task's check,
whose exit status 0 is success. The only reward is 1 for success, at the end. `info["stopped"]` tells why a
script was stopped: "" if it wasn't, `time`, `processes` or `memory`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from envs.base import Info, PromptStyle
from envs.lab.env import LabEnv
from envs.lab.shell.box import Box, BoxError, Result, lacking
from envs.lab.shell.options import Options
from envs.lab.shell.root import root_directory
from envs.lab.shell.text import FINISH
from envs.lab.text import cut
from envs.options import EnvSetupError

ENTRIES = "lab/os_entry_dict.json.xz"
LONGEST = 100_000
"""Bytes of a script; Linux hands a program 128 KiB at most."""
_STARTED = "The machine is ready. You are root, in /."
_STOPPED = {
    "time": "It was stopped: it took too long.",
    "processes": "It was stopped, and all other processes too: there were too many of them.",
    "memory": "It was stopped, and all other processes too: they took too much memory.",
}


class LabOs(LabEnv):
    """One task at a time. See the module's docstring."""

    name: ClassVar[str] = "lab-os"
    file: ClassVar[str] = ENTRIES

    def __init__(self, options: Options, style: PromptStyle) -> None:
        super().__init__(style)
        self.options = options
        self._root: Path | None = None
        self._box: Box | None = None

    def prepare(self, entry: dict[str, Any]) -> str:
        """A new machine, as the task's own preparation leaves it."""
        self.close()
        if self._root is None:
            if missing := lacking():
                raise EnvSetupError("; ".join(missing))
            self._root = root_directory(self.options.root)
        self._box = Box(self._root, self.options.disk_mib)
        prepared = self._run(entry["initialization_command_item"]["script"])
        if prepared.stopped:
            raise BoxError(f"lab-os: the task's own preparation was stopped ({prepared.stopped})")
        return _STARTED

    def _run(self, script: str) -> Result:
        if self._box is None:
            raise BoxError("lab-os: the box is closed")
        return self._box.run(script, self.options.command_seconds)

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        """Run a script, or have the machine checked."""
        entry = self.entry()
        if self._over:
            return self._seen, 0.0, True, False, self._info(invalid=True)
        script = action.strip()
        size = len(script.encode("utf-8", "replace"))
        invalid = not script or "\0" in script or size > LONGEST
        stopped = ""
        if script.lower() == FINISH:
            self._over = True
            self._seen = "The machine was checked."
        elif not invalid:
            done = self._run(script.encode("utf-8", "replace").decode())
            stopped = done.stopped or ""
            self._seen = self._shown(done)
        self._rounds += 1
        failed = invalid and self.options.end_on_invalid
        self._over = self._over or failed or self._rounds >= self.options.max_rounds
        if self._over and not failed:
            check = self._run(entry["evaluation_info"]["evaluation_command_item"]["script"])
            self._success = check.code == 0 and check.stopped is None
        info = self._info(invalid=invalid, stopped=stopped)
        return self._seen, float(self._success), self._over, False, info

    def _shown(self, done: Result) -> str:
        lines = [_STOPPED[done.stopped] if done.stopped else f"Exit status {done.code}."]
        if done.output.strip():
            lines.append(cut(done.output.rstrip("\n"), self.options.max_observation_chars))
        else:
            lines.append("(It printed nothing.)")
        return "\n".join(lines)

    def _info(self, *, invalid: bool = False, stopped: str = "", **further: Any) -> Info:
        return super()._info(invalid=invalid, stopped=stopped, **further)

    def close(self) -> None:
        """End the machine and all that runs on it."""
        if self._box is not None:
            self._box.close()
            self._box = None

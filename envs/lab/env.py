"""What both environments have in common: a task by its id, rounds, and a success at the end."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from envs.base import Info, PromptStyle, TextEnv
from envs.lab.tasks import entries
from envs.options import EnvSetupError


class LabEnv(TextEnv):
    """One task at a time."""

    file: ClassVar[str]
    """Where the tasks are, in the data directory."""

    def __init__(self, style: PromptStyle) -> None:
        self.style = style
        self._entry: dict[str, Any] | None = None
        self._seen = ""
        self._rounds = 0
        self._over = True
        self._success = False

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        """Start the task `options["instance"]`, an id from "0" to "499"."""
        if "instance" not in (options or {}):
            raise EnvSetupError(f"{self.name}: reset needs options={{'instance': ...}}")
        instance = (options or {})["instance"]
        every = entries(self.name, self.file)
        if str(instance) not in every:
            raise EnvSetupError(
                f"{self.name} has no instance {instance!r}: ids go from 0 to {len(every) - 1}"
            )
        self._entry = every[str(instance)]
        return self.restart()

    def restart(self) -> tuple[str, Info]:
        """The task again, in a place of its own."""
        entry = self.entry()
        self._seen = self.prepare(entry)
        self._rounds, self._over, self._success = 0, False, False
        return self._seen, {**self._info(), "instruction": entry["instruction"]}

    def entry(self) -> dict[str, Any]:
        """The task that was reset to."""
        if self._entry is None:
            raise EnvSetupError(f"{self.name}: restart or step before the first reset")
        return self._entry

    @abstractmethod
    def prepare(self, entry: dict[str, Any]) -> str:
        """Put what is left of an earlier episode away, make what the task needs; the first observation."""

    def _info(self, *, invalid: bool = False, **further: Any) -> Info:
        score = float(self._success)
        return {"success": self._success, "invalid": invalid, "score": score, **further}

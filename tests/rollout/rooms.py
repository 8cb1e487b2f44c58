"""A hall whose instances can misbehave: `lr`, or `lr!hang:1` to hang at door 1 (see `Rooms.step`)."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from actors.rollout.env_wire import EnvSettings
from agentmem.failures import EnvError
from envs.base import Info, PromptStyle
from tests.rollout.worlds import Hall, HallStyle


@dataclass(frozen=True, slots=True)
class Options:
    step_s: float = 0.0
    log: str = ""
    """A file to which each reset appends its process id and instance."""


class Rooms(Hall):
    name = "rooms"

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.behaviour = ""
        self.kept = b""

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        assert options is not None
        path, _, self.behaviour = str(options["instance"]).partition("!")
        print("an environment may print what it likes")
        if self.options.log:
            with Path(self.options.log).open("a") as log:
                log.write(f"{os.getpid()} {options['instance']}\n")
        if self.behaviour == "hang:reset":
            time.sleep(1e6)
        return super().reset(options={"instance": path})

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        time.sleep(self.options.step_s)
        if self.behaviour:
            what, door = self.behaviour.split(":")
            if int(door) == self.at:
                self._misbehave(what)
        return super().step(action)

    def _misbehave(self, what: str) -> None:
        if what == "hang":
            time.sleep(1e6)
        while what == "spin":
            pass
        if what == "crash":
            os._exit(3)
        if what == "grow":
            self.kept = self.kept or b"x" * (300 << 20)
        if what.startswith("spawn"):
            child = subprocess.Popen(["sleep", "1000000"], start_new_session=True)
            Path(self.options.log).write_text(str(child.pid))
        if what == "spawn-crash":
            os._exit(3)
        if what == "spawn-hang":
            time.sleep(1e6)
        if what == "bug":
            raise KeyError("door")
        if what == "lost":
            raise EnvError("the backend is gone")


def make(options: Options) -> Rooms:
    return Rooms(options)


def style(options: Options) -> PromptStyle:
    return HallStyle()


def settings(*, light: bool = False, **options: object) -> EnvSettings:
    return EnvSettings(name="rooms", module="tests.rollout.rooms", options=dict(options), light=light)

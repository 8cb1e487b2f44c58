"""An environment in another Python, played from here as if it were in this process.

`Elsewhere` is a `TextEnv`, so the checks of `contract.py` serve it, too. Each call is a line of JSON to a
process of the environment's own interpreter, and one back.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
from typing import Any

import psutil

from envs.base import EnvLost, Info, TextEnv
from envs.interpreter import interpreter
from envs.options import EnvSetupError
from envs.registry import spec, style

_SERVE = """
import base64, json, os, sys
from envs.registry import make

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
name, options = json.loads(sys.stdin.readline())
env = make(name, options)
plain = lambda value: {"base64": base64.b64encode(value).decode()}
for line in sys.stdin:
    call, given = json.loads(line)
    try:
        answer = {"is": getattr(env, call)(**given)}
    except Exception as error:
        answer = {"raised": [type(error).__name__, str(error)]}
    print(json.dumps(answer, default=plain), file=answers, flush=True)
env.close()
"""
_ERRORS = {"EnvSetupError": EnvSetupError, "EnvLost": EnvLost}


def python_of(name: str) -> str:
    """The environment's own Python."""
    return interpreter(spec(name))


class Elsewhere(TextEnv):
    """See the module's docstring."""

    def __init__(self, name: str, options: dict[str, Any] | None = None, **surroundings: str) -> None:
        self.style = style(name, options or {})
        self.process = subprocess.Popen(
            [python_of(name), "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **surroundings},
        )
        self._write([name, options or {}])

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        observation, info = self._ask("reset", options=options)
        return observation, _plain(info)

    def restart(self) -> tuple[str, Info]:
        observation, info = self._ask("restart")
        return observation, _plain(info)

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self._ask("step", action=action)
        return observation, reward, terminated, truncated, _plain(info)

    def close_there(self) -> None:
        """Close the environment, but keep its process."""
        self._ask("close")

    def close(self) -> None:
        """End the environment and its process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()

    def below(self) -> list[psutil.Process]:
        """The processes that the environment has started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def _ask(self, call: str, **given: Any) -> Any:
        self._write([call, given])
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        if "raised" in answer:
            kind, text = answer["raised"]
            raise _ERRORS.get(kind, RuntimeError)(text)
        return answer["is"]

    def _write(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()


def _plain(info: Info) -> Info:
    return {
        key: base64.b64decode(value["base64"]) if isinstance(value, dict) and "base64" in value else value
        for key, value in info.items()
    }

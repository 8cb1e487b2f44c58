"""An environment in a host process of its own, in its own Python, for tests that call it as if it were here.

The process is the one that env workers use (`actors.rollout.env_host`), and so are the messages.
"""

from __future__ import annotations

import subprocess
from typing import Any

import msgspec

from actors.rollout.env_host import frame, read_frame
from actors.rollout.env_wire import RESULTS, Answer, Call, EnvSettings, Op, encode, error_of, pack
from actors.rollout.protocols import Outcome, Situation
from envs.base import Info, TextEnv


class Hosted(TextEnv):
    """See the module's docstring. A failure is raised as the error that an agent would get."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        settings = EnvSettings.named(name, options)
        self.style = settings.style()
        self.process = subprocess.Popen(
            [settings.python(), "-m", "actors.rollout.env_host"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._calls = 0
        self._send(msgspec.msgpack.encode(settings))

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        """The contract's."""
        assert options is not None
        return _situation(self._call(Op.RESET, options["instance"]))

    def restart(self) -> tuple[str, Info]:
        """The contract's."""
        return _situation(self._call(Op.RESTART, None))

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        """The contract's."""
        got: Outcome = self._call(Op.STEP, action)
        info = {"success": got.success, "invalid": got.invalid, "score": got.score}
        return got.observation, got.reward, got.terminated, got.truncated, info

    def close(self) -> None:
        """End the process as its worker does: its input ends."""
        assert self.process.stdin
        self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        finally:
            self.process.kill()

    def _call(self, op: Op, argument: Any) -> Any:
        self._calls += 1
        self._send(encode(Call(self._calls, 0, op, pack(argument))))
        assert self.process.stdout
        message = read_frame(self.process.stdout)  # type: ignore[arg-type]
        assert message is not None, "the host process is gone"
        answer = msgspec.msgpack.decode(message, type=Answer)
        if not answer.ok:
            raise error_of(answer.body)
        return RESULTS[op].decode(answer.body)

    def _send(self, message: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(frame(message))
        self.process.stdin.flush()


def _situation(got: Situation) -> tuple[str, Info]:
    return got.observation, {"success": False, "invalid": False, "instruction": got.instruction}

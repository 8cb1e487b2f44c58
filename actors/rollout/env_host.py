"""A process that holds environments: the only place where the code of an environment runs outside an agent.

    python -m actors.rollout.env_host       (started by host_process.py, never by hand)

It reads frames (4 bytes of length, then a message) from its standard input: first the EnvSettings, then
Calls, one at a time; it writes one Answer each to its standard output. A call's `session` is the number of a
slot here. Whatever an environment prints goes to standard error. It ends when its input ends, and the kernel
ends it when its parent dies. A hang needs no care here: the parent kills this process when the call's
deadline has passed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from typing import Any, BinaryIO

import msgspec

from actors.rollout.env_calls import outcome_of, situation_of
from actors.rollout.env_wire import ARGUMENTS, Answer, Call, EnvSettings, Op, encode, failed, pack
from actors.rollout.protocols import Outcome, Situation
from agentmem.chaos import hold
from agentmem.failures import EnvError, Failure
from envs.base import EnvLost, TextEnv

_PR_SET_PDEATHSIG = 1


def read_frame(source: BinaryIO) -> bytes | None:
    """The next message, None at the end."""
    head = source.read(4)
    if len(head) < 4:
        return None
    return source.read(int.from_bytes(head, "big"))


def frame(message: bytes) -> bytes:
    """A message with its length."""
    return len(message).to_bytes(4, "big") + message


class Slots:
    """The environments of this process, by slot. One in which anything raised is never used again."""

    def __init__(self, settings: EnvSettings) -> None:
        self._settings = settings
        self._envs: dict[int, TextEnv] = {}

    def answer(self, call: Call) -> Answer:
        """Do what is asked. Exceptions become Failures here, where they can still be classified."""
        try:
            argument = ARGUMENTS[call.op].decode(call.argument)
            return Answer(call.id, True, pack(self._do(call.session, call.op, argument)))
        except Exception as error:
            env = self._envs.pop(call.session, None)
            if env is not None:
                with contextlib.suppress(Exception):  # what is reported is the first failure
                    env.close()
            if isinstance(error, EnvLost):
                error = EnvError(str(error))
            return failed(call.id, Failure.of(error, where=f"{self._settings.name} {call.op}"))

    def _do(self, slot: int, op: Op, argument: Any) -> Situation | Outcome | str:
        env = self._envs.get(slot)
        if env is None:
            env = self._envs[slot] = self._settings.make()
        if op is Op.STEP:
            hold("env.turn")
            if self._settings.step_wait_s:
                time.sleep(self._settings.step_wait_s)
            return outcome_of(env, *env.step(argument))
        if op is Op.RESET:
            return situation_of(env, *env.reset(options={"instance": argument}))
        if op is Op.RESTART:
            return situation_of(env, *env.restart())
        return env.summarise(argument)

    def close(self) -> None:
        """End all environments."""
        for env in self._envs.values():
            env.close()


def main() -> None:
    """Serve until the input ends."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was told
        return
    # An interrupt at the terminal is the parent's to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    head = read_frame(source)
    if head is None:
        return
    slots = Slots(msgspec.msgpack.decode(head, type=EnvSettings))
    calls = msgspec.msgpack.Decoder(Call)
    while (message := read_frame(source)) is not None:
        sink.write(frame(encode(slots.answer(calls.decode(message)))))
    slots.close()
    sys.stderr.flush()


if __name__ == "__main__":
    main()

"""What crosses between an agent and an env worker, and between a worker and its host processes.

One session is one trial in one environment. Its calls never overlap. `reset` opens it (and waits for a free
slot), `release` closes it; every other call gets exactly one answer, by its id.
"""

from __future__ import annotations

import importlib
import sys
from enum import StrEnum
from typing import Any

import msgspec

from actors.rollout.protocols import Outcome, Situation
from agentmem.failures import AgentMemError, EnvError, Failure, FailureKind
from envs.base import EpisodeRecord, Instance, PromptStyle, TextEnv
from envs.interpreter import interpreter
from envs.options import parse_options
from envs.prompting import RECIPE, prompted
from envs.registry import spec
from envs.scripted import ScriptedAgent


class EnvSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An environment that can be made in any process."""

    name: str
    module: str
    """Where `make`, `style` and `Options` are (see EnvSpec)."""
    options: dict[str, Any] = {}
    light: bool = False
    own_venv: bool = False
    """Its host processes run another Python than the worker, found on the worker's machine."""
    prompting: str = RECIPE
    """How a language model is asked (`envs.prompting`)."""
    step_wait_s: float = 0.0
    """How long a host process waits before each step."""

    @classmethod
    def named(
        cls, name: str, options: dict[str, Any], prompting: str = RECIPE, step_wait_s: float = 0.0
    ) -> EnvSettings:
        """From the registry."""
        entry = spec(name, options)
        return cls(
            name=name,
            module=entry.module,
            options=options,
            light=entry.light,
            own_venv=entry.venv is not None,
            prompting=prompting,
            step_wait_s=step_wait_s,
        )

    def python(self) -> str:
        """The Python of its host processes on this machine."""
        return interpreter(spec(self.name, self.options)) if self.own_venv else sys.executable

    def make(self) -> TextEnv:
        """An environment."""
        module = importlib.import_module(self.module)
        env: TextEnv = module.make(parse_options(module.Options, self.options))
        env.style = prompted(env.style, self.prompting)
        return env

    def style(self) -> PromptStyle:
        """Its prompts, without an environment."""
        module = importlib.import_module(self.module)
        return prompted(module.style(parse_options(module.Options, self.options)), self.prompting)

    def scripted_agent(self, script: str = "") -> ScriptedAgent:
        """The player that it brings itself; of several the one of this name."""
        module = importlib.import_module(self.module)
        made: ScriptedAgent = module.scripted_agent(parse_options(module.Options, self.options), script)
        return made


class EnvDataError(AgentMemError):
    """A data failure of an environment in another process: a bug, or an instance that doesn't exist."""


class Op(StrEnum):
    """What is asked of a session."""

    RESET = "reset"
    RESTART = "restart"
    STEP = "step"
    SUMMARISE = "summarise"
    RELEASE = "release"


class Call(msgspec.Struct, frozen=True, array_like=True):
    """One operation of one session; `argument` by operation: instance, none, action, EpisodeRecord, none."""

    id: int
    session: int
    op: Op
    argument: msgspec.Raw = msgspec.Raw(b"\xc0")


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a call: Situation, Outcome or str; or a Failure, and then the session is over."""

    id: int
    ok: bool
    body: msgspec.Raw


_encoder = msgspec.msgpack.Encoder()
_calls = msgspec.msgpack.Decoder(list[Call])
_answers = msgspec.msgpack.Decoder(list[Answer])
_failure = msgspec.msgpack.Decoder(Failure)
ARGUMENTS: dict[Op, msgspec.msgpack.Decoder[Any]] = {
    Op.RESET: msgspec.msgpack.Decoder(str | int),
    Op.RESTART: msgspec.msgpack.Decoder(None),
    Op.STEP: msgspec.msgpack.Decoder(str),
    Op.SUMMARISE: msgspec.msgpack.Decoder(EpisodeRecord),
    Op.RELEASE: msgspec.msgpack.Decoder(None),
}
RESULTS: dict[Op, msgspec.msgpack.Decoder[Any]] = {
    Op.RESET: msgspec.msgpack.Decoder(Situation),
    Op.RESTART: msgspec.msgpack.Decoder(Situation),
    Op.STEP: msgspec.msgpack.Decoder(Outcome),
    Op.SUMMARISE: msgspec.msgpack.Decoder(str),
}


def pack(value: Situation | Outcome | Failure | EpisodeRecord | Instance | None) -> msgspec.Raw:
    """A value as the part of a message."""
    return msgspec.Raw(_encoder.encode(value))


def encode(message: Call | Answer | list[Call] | list[Answer]) -> bytes:
    """A message as bytes."""
    return _encoder.encode(message)


def decode_calls(data: bytes) -> list[Call]:
    """The calls of a batch."""
    return _calls.decode(data)


def decode_answers(data: bytes) -> list[Answer]:
    """The answers of a batch."""
    return _answers.decode(data)


def failed(call_id: int, failure: Failure) -> Answer:
    """The answer to a call that came to nothing."""
    return Answer(call_id, False, pack(failure))


def error_of(body: msgspec.Raw) -> AgentMemError:
    """The exception that stands for a failure, of the same kind as where it happened."""
    failure = _failure.decode(body)
    if failure.kind is FailureKind.INFRASTRUCTURE:
        return EnvError(failure.what.removeprefix("EnvError: "))
    return EnvDataError(failure.what)

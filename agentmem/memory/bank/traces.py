"""What a writer reads: one episode of one task, with all that was seen and done.

Traces come from trials: those of a run, or lines of JSON, each a trial as `agentmem buffer export` writes it
(inside `trial`, or bare). Of a line only what is read here is looked at, so token ids may be missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from agentmem.failures import ConfigError, Failure
from agentmem.trajectory import Split, StopReason, Task, Trial

Json = dict[str, Any]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A turn."""

    observation: str = ""
    response: str = ""
    actions: tuple[str, ...] = ()
    reward: float | None = None
    invalid: bool = False


class _Episode(msgspec.Struct, frozen=True, kw_only=True):
    initial_observation: str
    turns: tuple[Step, ...]
    stop: StopReason
    success: bool = False
    score: float | None = None
    final_observation: str = ""


class _Trial(msgspec.Struct, frozen=True, kw_only=True):
    ticket: str
    task: Task
    episodes: tuple[_Episode, ...]
    instruction: str = ""
    failure: Failure | None = None


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """An episode that was played to its end."""

    source: str
    """`<trial>:<episode>`."""
    domain: str
    task_id: str | int
    split: Split
    task_text: str
    """The task in words; of a trial its instance's own text, which may be empty."""
    first: str
    """The first observation."""
    steps: tuple[Step, ...]
    stop: StopReason
    success: bool
    score: float | None
    last: str
    """What was seen at the end."""

    @property
    def actions(self) -> tuple[str, ...]:
        """One a step, moves of one step joined."""
        return tuple("; ".join(step.actions) for step in self.steps)

    @property
    def digest(self) -> str:
        """Names what was seen and done, wherever it was recorded."""
        seen = [(step.observation, "; ".join(step.actions), step.invalid) for step in self.steps]
        told = (self.domain, self.task_id, self.task_text, self.first, seen, self.success, self.last)
        return hashlib.blake2b(msgspec.json.encode(told), digest_size=16).hexdigest()


def traces_of(trial: Trial) -> list[Trace]:
    """The traces of a trial; episodes that an infrastructure failure ended are none."""
    return _traces(msgspec.convert(trial, _Trial, from_attributes=True))


def read_traces(path: Path) -> Iterator[list[Trace]]:
    """The traces of each line. Raises ConfigError naming the file, the line and what is wrong with it."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield _traces(_trial(line, f"{path}, line {number}"))
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error


def _traces(trial: _Trial) -> list[Trace]:
    return [
        Trace(
            source=f"{trial.ticket}:{number}",
            domain=trial.task.environment,
            task_id=trial.task.instance,
            split=trial.task.split,
            task_text=trial.instruction,
            first=episode.initial_observation,
            steps=episode.turns,
            stop=episode.stop,
            success=episode.success,
            score=episode.score,
            last=episode.final_observation,
        )
        for number, episode in enumerate(trial.episodes)
        if episode.turns and episode.stop is not StopReason.ENV_FAILURE
    ]


def _trial(line: bytes, where: str) -> _Trial:
    try:
        found: Any = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{where}: a trial is needed, found {type(found).__name__}")
    if isinstance(found.get("error"), str):
        raise ConfigError(f"{where}: no trial, the buffer couldn't read it: {found['error'][:200]}")
    trial: Any = found.get("trial", found)
    if isinstance(trial, dict) and "task" not in trial and "condition" in trial and "episodes" in trial:
        raise ConfigError(
            f"{where}: a line of an evaluation holds actions but not what was seen, and its tasks are held "
            "out; a bank is written from whole trials: a run, or what `agentmem buffer export RUN` writes"
        )
    try:
        return msgspec.convert(trial, _Trial)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: no whole trial: {error}") from None

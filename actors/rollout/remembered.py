"""Environments that needn't be played twice: what equal actions led to is remembered.

Where equal actions in an instance always lead to the same outcomes (`EnvSpec.deterministic`), a course that
was played once is known. A trial is told known outcomes without an environment, and without a slot of an env
worker; at the first action that nobody tried there, the environment is brought to where the trial stands, by
the same actions, and plays on. If it then says other than what is remembered, it isn't deterministic after
all: that is raised, and nothing was trained on a mixture of two games.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

from actors.rollout.protocols import Environment, Outcome, Situation
from agentmem.failures import AgentMemError
from envs.base import EpisodeRecord, Instance, PromptStyle

Path = tuple[str, ...]
"""The actions of an episode so far."""


class Envs(Protocol):
    """A source of environments."""

    async def open(self) -> Environment: ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class _Known:
    start: Situation
    outcomes: dict[Path, Outcome] = field(default_factory=dict)


class OutcomeBook:
    """What happened in which instance; of more than `turns` outcomes the longest unused instances go."""

    def __init__(self, turns: int) -> None:
        self._most, self._turns = turns, 0
        self._known: OrderedDict[Instance, _Known] = OrderedDict()

    def __len__(self) -> int:
        """Outcomes that are remembered."""
        return self._turns

    def start(self, instance: Instance) -> Situation | None:
        """An instance's initial state, if it was seen."""
        known = self._known.get(instance)
        if known is None:
            return None
        self._known.move_to_end(instance)
        return known.start

    def outcome(self, instance: Instance, path: Path) -> Outcome | None:
        """What the last action of a path led to, if it was played."""
        known = self._known.get(instance)
        return None if known is None else known.outcomes.get(path)

    def began(self, instance: Instance, start: Situation) -> None:
        """Remember an initial state. Raises AgentMemError if it was another before."""
        known = self._known.setdefault(instance, _Known(start))
        if known.start != start:
            raise _differs(instance, (), known.start, start)

    def led_to(self, instance: Instance, path: Path, outcome: Outcome) -> None:
        """Remember an outcome. Raises AgentMemError if it was another before."""
        known = self._known.get(instance)
        if known is None:  # it had to go while it was played
            return
        before = known.outcomes.setdefault(path, outcome)
        if before is not outcome:
            if before != outcome:
                raise _differs(instance, path, before, outcome)
            return
        self._turns += 1
        while self._turns > self._most and len(self._known) > 1:
            _, gone = self._known.popitem(last=False)
            self._turns -= len(gone.outcomes)


class RememberingEnvs:
    """Sessions of other environments, over one book."""

    def __init__(self, envs: Envs, turns: int) -> None:
        self._envs, self._book = envs, OutcomeBook(turns)

    async def open(self) -> RememberingSession:
        """An environment for one trial."""
        return RememberingSession(await self._envs.open(), self._book)

    async def close(self) -> None:
        """End the environments beneath."""
        await self._envs.close()


class RememberingSession:
    """See `Environment`."""

    def __init__(self, env: Environment, book: OutcomeBook) -> None:
        self._env, self._book = env, book
        self._instance: Instance = ""
        self._path: Path = ()
        self._at: Path | None = None
        """Where the environment beneath stands; None: not in this instance."""

    @property
    def style(self) -> PromptStyle:
        return self._env.style

    async def reset(self, instance: Instance) -> Situation:
        """See `Environment`. Waits for a slot only where the instance is new."""
        self._instance, self._path, self._at = instance, (), None
        known = self._book.start(instance)
        return await self._enter() if known is None else known

    async def restart(self) -> Situation:
        """See `Environment`."""
        self._path = ()
        known = self._book.start(self._instance)
        return await self._enter() if known is None else known

    async def step(self, action: str) -> Outcome:
        """See `Environment`."""
        path = (*self._path, action)
        outcome = self._book.outcome(self._instance, path)
        if outcome is None:
            await self._catch_up()
            outcome = await self._play(action)
        self._path = path
        return outcome

    async def summarise(self, record: EpisodeRecord) -> str:
        """See `Environment`."""
        await self._catch_up()
        return await self._env.summarise(record)

    async def close(self) -> None:
        """See `Environment`."""
        await self._env.close()

    async def _enter(self) -> Situation:
        start = await (self._env.reset(self._instance) if self._at is None else self._env.restart())
        self._at = ()
        self._book.began(self._instance, start)
        return start

    async def _catch_up(self) -> None:
        """Bring the environment to where the trial stands."""
        if self._at is None or self._path[: len(self._at)] != self._at:
            await self._enter()
        assert self._at is not None
        for action in self._path[len(self._at) :]:
            await self._play(action)

    async def _play(self, action: str) -> Outcome:
        assert self._at is not None
        at, self._at = self._at, None  # whatever is raised, nobody knows where it stands
        outcome = await self._env.step(action)
        self._at = (*at, action)
        self._book.led_to(self._instance, self._at, outcome)
        return outcome


def _differs(instance: Instance, path: Path, before: object, now: object) -> AgentMemError:
    where = " > ".join(path) or "its start"
    return AgentMemError(
        f"env.remember_turns: instance {instance} isn't deterministic: "
        f"{where} led to {before!r}, then to {now!r}"
    )

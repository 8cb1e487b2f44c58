"""Environments in the agent actor's own process: for those that are declared light and can't hang.

A step is a plain call. Environment objects are used again by later trials; one in which anything raised is
dropped, since nobody knows its state.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.rollout.env_calls import outcome_of, situation_of
from actors.rollout.protocols import Outcome, Situation
from envs.base import EpisodeRecord, Instance, PromptStyle, TextEnv


class LocalEnvs:
    """A source of environments of one kind."""

    def __init__(self, make: Callable[[], TextEnv]) -> None:
        self._make = make
        self._idle: list[TextEnv] = []

    async def open(self) -> LocalSession:
        """An environment for one trial."""
        return LocalSession(self._idle.pop() if self._idle else self._make(), self._idle)

    async def close(self) -> None:
        """End the idle environments."""
        while self._idle:
            self._idle.pop().close()


class LocalSession:
    """See Environment."""

    __slots__ = ("_clean", "_env", "_idle", "style")

    def __init__(self, env: TextEnv, idle: list[TextEnv]) -> None:
        self._env: TextEnv | None = env
        self._idle = idle
        self._clean = True
        self.style: PromptStyle = env.style

    async def reset(self, instance: Instance) -> Situation:
        """See Environment."""
        self._clean = False
        env = self._opened()
        situation = situation_of(env, *env.reset(options={"instance": instance}))
        self._clean = True
        return situation

    async def restart(self) -> Situation:
        """See Environment."""
        self._clean = False
        env = self._opened()
        situation = situation_of(env, *env.restart())
        self._clean = True
        return situation

    async def step(self, action: str) -> Outcome:
        """See Environment."""
        self._clean = False
        env = self._opened()
        outcome = outcome_of(env, *env.step(action))
        self._clean = True
        return outcome

    async def summarise(self, record: EpisodeRecord) -> str:
        """See Environment."""
        return self._opened().summarise(record)

    async def close(self) -> None:
        """Give the environment back, or end it if something raised in it."""
        env, self._env = self._env, None
        if env is None:
            return
        if self._clean:
            self._idle.append(env)
        else:
            env.close()

    def _opened(self) -> TextEnv:
        if self._env is None:
            raise RuntimeError("the environment of this trial was given back already")
        return self._env

"""Scripted agents: players that an environment brings itself, for a memory policy to advise (Mem-π).

An environment's module may have `scripted_agent(options, script) -> ScriptedAgent`. Such a player is part of
the world: it isn't trained, reads no prompt, and is the same for the same options. There may be several, by
name; the empty name is the usual one. A memory policy that was trained with one can be tried with another
(`policies.agent.model: scripted:NAME`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from envs.base import View
from envs.options import EnvSetupError


class ScriptedAgent(Protocol):
    """Stateless: what it does depends on what it sees alone."""

    def respond(self, view: View) -> str:
        """The answer that the environment's style reads an action from."""
        ...


def chosen(agents: Mapping[str, ScriptedAgent], script: str, environment: str) -> ScriptedAgent:
    """The agent of this name, the first one for the empty name. Raises EnvSetupError for an unknown one."""
    if not script:
        return next(iter(agents.values()))
    if script not in agents:
        raise EnvSetupError(
            f"environment {environment} has no scripted agent {script!r}: it has {', '.join(agents)}"
        )
    return agents[script]

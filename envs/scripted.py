"""Scripted agents: players that an environment brings itself, for a memory policy to advise (Mem-π).

An environment's module may have `scripted_agent(options) -> ScriptedAgent`. Such a player is part of the
world: it isn't trained, reads no prompt, and is the same for the same options.
"""

from __future__ import annotations

from typing import Protocol

from envs.base import View


class ScriptedAgent(Protocol):
    """Stateless: what it does depends on what it sees alone."""

    def respond(self, view: View) -> str:
        """The answer that the environment's style reads an action from."""
        ...

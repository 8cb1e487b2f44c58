"""An environment's scripted agent as a policy: it looks at the view, reads no prompt, has no token ids."""

from __future__ import annotations

from actors.rollout.protocols import Reply
from agentmem.trajectory import TurnKind
from envs.base import Prompt, View
from envs.scripted import ScriptedAgent


class ScriptedPolicy:
    """See `protocols.Policy`."""

    def __init__(self, name: str, agent: ScriptedAgent) -> None:
        self.name, self._agent = name, agent

    def conversation(self) -> ScriptedPolicy:
        """For one trial: it remembers nothing."""
        return self

    async def respond(
        self, prompt: Prompt, kind: TurnKind, student: Prompt | None = None, view: View | None = None
    ) -> Reply | None:
        """An action; to all else that a policy is asked for it says nothing."""
        return Reply("" if kind is not TurnKind.ACT or view is None else self._agent.respond(view))

"""From what `TextEnv` returns to what a trial reads: the same in the agent's process and in a worker's."""

from __future__ import annotations

from actors.rollout.protocols import Outcome, Situation
from envs.base import Info, TextEnv


def situation_of(env: TextEnv, observation: str, info: Info) -> Situation:
    """The result of `reset` or `restart`."""
    return Situation(
        observation, env.admissible_actions(), info.get("instruction", ""), info.get("screenshot")
    )


def outcome_of(
    env: TextEnv, observation: str, reward: float, terminated: bool, truncated: bool, info: Info
) -> Outcome:
    """The result of `step`."""
    return Outcome(
        observation,
        float(reward),
        terminated,
        truncated,
        info["success"],
        info["invalid"],
        info.get("score"),
        env.admissible_actions(),
    )

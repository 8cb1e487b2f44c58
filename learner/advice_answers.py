"""Mem-π: which advice turns of a group can be compared, and what each was rewarded.

A trial whose infrastructure failed, or that has no advice turn of the policy (its generator was late or
lost), is left out. What can't be right (an answer without ids, or of another branch than its trial's; a score
where the environment gives none) is an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agentmem.chat.decision import Decision, DecisionTokens
from agentmem.config.advice import AdviceConfig
from agentmem.failures import AgentMemError
from agentmem.sampling import FinishReason
from agentmem.trajectory import Trial, Turn


@dataclass(frozen=True, slots=True)
class Answer:
    """An advice turn, and what came of it. `trial` numbers the trials of the update."""

    trial: int
    turn: Turn
    decision: Decision
    reward: float
    """The task reward."""

    @property
    def hint_tokens(self) -> int:
        """|m|: tokens of the hint, without the stop token."""
        ended = self.turn.finish_reason is FinishReason.STOP
        return max(len(self.turn.response_ids or ()) - 1 - ended, 0)


def contexts_of(group: Sequence[Trial], cfg: AdviceConfig) -> int:
    """How many times the group's trials were advised: before each episode, or once."""
    return max((len(trial.advice) for trial in group), default=0) if cfg.every == "episode" else 1


def answer_of(
    trial: Trial, number: int, n: int, cfg: AdviceConfig, tokens: DecisionTokens, policy: str
) -> Answer | None:
    """Advice turn n of a trial, None if it can't be compared. Raises AgentMemError for an impossible one."""
    reward = _reward(trial, n, cfg)
    if reward is None or n >= len(trial.advice) or trial.advice[n].policy != policy:
        return None
    turn = trial.advice[n]
    if turn.response_ids is None or turn.sampling is None or not turn.prompt_ids:
        raise AgentMemError(
            f"trial {trial.ticket}: its advice lacks token ids or sampling parameters: it can't be trained"
        )
    decision, _ = tokens.split(turn.response_ids)
    branch = trial.mode.advice
    if branch not in ("free", decision.value):
        raise AgentMemError(
            f"trial {trial.ticket}: its branch is {branch!r}, but its answer begins with {decision.token} "
            "(branches are 'generate', 'abstain' and 'free')"
        )
    return Answer(number, turn, decision, reward)


def _reward(trial: Trial, n: int, cfg: AdviceConfig) -> float | None:
    """The task reward of advice turn n: of the trial, or of the episode that follows it."""
    if not trial.valid or not trial.episodes:
        return None
    if cfg.every == "trial":
        success, score = trial.success, trial.score
    elif n < len(trial.episodes):
        success, score = trial.episodes[n].success, trial.episodes[n].score
    else:
        return None
    if cfg.reward == "success":
        return float(success)
    if score is None:
        raise AgentMemError(
            f"trial {trial.ticket}: advice.reward is 'score', but {trial.task.environment} gave none: "
            "use 'success'"
        )
    return score if math.isfinite(score) else None

"""Success under equal budgets: episodes ("trajectories"), sampled tokens, or wall seconds of a trial.

A success ends its trial, so what a solved trial cost in all is what its success cost: reflections between the
episodes are paid for. *Success within a budget b* is the share of all trials that were solved at a cost of at
most b; with b in episodes it is p@b. Two arms are comparable up to the *common cut*: the least of the arms'
dearest trials. Beyond it an arm that stopped earlier could have gone on, which nobody has measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from agentmem.evaluation.lines import TrialLine
from agentmem.evaluation.pass_at_k import Share, wilson


class Cost(StrEnum):
    """What is counted."""

    EPISODES = "episodes"
    TOKENS = "tokens"
    """Sampled, of all kinds."""
    WALL = "wall_s"
    """Depends on what else was in flight: comparable on the same machine and load only."""


def cost_of(line: TrialLine, cost: Cost) -> float:
    """What a trial cost in all."""
    if cost is Cost.EPISODES:
        return len(line.episodes)
    return line.sampled_tokens if cost is Cost.TOKENS else line.wall_s


@dataclass(frozen=True, slots=True)
class Spent:
    """Of an evaluation, in all."""

    trials: int
    episodes: int
    turns: int
    tokens: dict[str, int]
    """Sampled, by turn kind."""
    prompt_tokens: int
    wall_s: float
    """Of the trials, added: many are in flight at once."""

    @property
    def sampled_tokens(self) -> int:
        """Of all kinds."""
        return sum(self.tokens.values())


def spent(lines: Sequence[TrialLine]) -> Spent:
    """See Spent."""
    tokens: dict[str, int] = {}
    for line in lines:
        for kind, count in line.tokens.items():
            tokens[kind] = tokens.get(kind, 0) + count
    return Spent(
        trials=len(lines),
        episodes=sum(len(line.episodes) for line in lines),
        turns=sum(line.turns for line in lines),
        tokens=tokens,
        prompt_tokens=sum(line.prompt_tokens for line in lines),
        wall_s=sum(line.wall_s for line in lines),
    )


def within_budget(lines: Sequence[TrialLine], cost: Cost, budget: float) -> Share:
    """Success within a budget a trial. Raises ValueError without a trial."""
    return wilson(sum(any(line.solved) and cost_of(line, cost) <= budget for line in lines), len(lines))


def common_cut(arms: Sequence[Sequence[TrialLine]], cost: Cost) -> float:
    """The largest budget at which all arms are comparable."""
    return min(max(cost_of(line, cost) for line in lines) for lines in arms)


def budget_curve(lines: Sequence[TrialLine], cost: Cost) -> list[tuple[float, float]]:
    """(budget, success within it): a step function's corners, from (0, 0) to the dearest trial."""
    solved = sorted(cost_of(line, cost) for line in lines if any(line.solved))
    corners: dict[float, float] = {0.0: 0.0}
    for n, at in enumerate(solved, start=1):
        corners[at] = n / len(lines)
    end = max(cost_of(line, cost) for line in lines)
    corners.setdefault(end, len(solved) / len(lines))
    return sorted(corners.items())

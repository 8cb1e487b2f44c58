"""How an agent behaves over a trial: does it lose the same way twice, repeat itself, explore at all?

- *Repeat-failure rate*: of the episodes that follow a lost one, the share that is lost by exactly the action
  sequence of an earlier lost episode of its trial. In a deterministic environment such an episode was lost
  before it began. An episode without any action repeats nothing.
- *Action fixation*: of the turns with an action whose turn before, in the same episode, has one too, the
  share in which the two are equal.
- *Unusable answers*: the share of turns whose answer held no action, or one that wasn't possible.
- *Trajectory entropy* of a task: H = −Σ p̂ ln p̂ over the exact (observation, action) sequences of its K
  trials, all episodes of a trial together; between 0 (always the same) and ln K (never twice). The figure of
  an evaluation is the mean over its tasks with K ≥ 2.
- *Worst task*: the least p@k of the tasks with at least `min_trials` trials.

All are shares in [0, 1] or nats; None where nothing can be said (no second episode, no second trial).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from agentmem.evaluation.lines import TrialLine, by_task
from agentmem.evaluation.pass_at_k import Share, wilson


def repeat_failure(lines: Sequence[TrialLine]) -> Share | None:
    """See the module's docstring; the interval takes episodes as independent."""
    later = repeated = 0
    for line in lines:
        lost: set[tuple[str, ...]] = set()
        for n, episode in enumerate(line.episodes):
            actions = tuple(episode.actions)
            if n > 0:
                later += 1
                repeated += not episode.solved and actions in lost
            if not episode.solved and any(actions):
                lost.add(actions)
    return wilson(repeated, later) if later else None


def fixation(lines: Sequence[TrialLine]) -> Share | None:
    """See the module's docstring; the interval takes turns as independent."""
    pairs = [
        before == after
        for line in lines
        for episode in line.episodes
        for before, after in zip(episode.actions, episode.actions[1:], strict=False)
        if before and after
    ]
    return wilson(sum(pairs), len(pairs)) if pairs else None


def unusable(lines: Sequence[TrialLine]) -> Share | None:
    """See the module's docstring; the interval takes turns as independent."""
    turns = sum(line.turns for line in lines)
    return wilson(sum(e.invalid for line in lines for e in line.episodes), turns) if turns else None


def entropy(sequences: Sequence[Hashable]) -> float:
    """−Σ p̂ ln p̂ in nats. Raises ValueError for no sequence."""
    if not sequences:
        raise ValueError("no trajectory has no entropy")
    n = len(sequences)
    # + 0.0: a single kind gives 0, not -0.
    return -sum(count / n * math.log(count / n) for count in Counter(sequences).values()) + 0.0


@dataclass(frozen=True, slots=True)
class Entropy:
    """Mean over `tasks` tasks of `trials` trials each (the mean number)."""

    value: float
    tasks: int
    trials: float


def trajectory_entropy(lines: Sequence[TrialLine]) -> Entropy | None:
    """See the module's docstring."""
    tasks = [trials for trials in by_task(lines).values() if len(trials) > 1]
    if not tasks:
        return None
    values = [entropy([tuple(e.path for e in line.episodes) for line in trials]) for trials in tasks]
    return Entropy(sum(values) / len(tasks), len(tasks), sum(map(len, tasks)) / len(tasks))


@dataclass(frozen=True, slots=True)
class WorstTask:
    """The first task of the least p@k; `shared_by` tasks have it, of `tasks` with enough trials."""

    instance: str | int
    value: float
    trials: int
    shared_by: int
    tasks: int


def worst_task(lines: Sequence[TrialLine], k: int, min_trials: int = 2) -> WorstTask | None:
    """See the module's docstring. With one trial a task it would say no more than that one was lost."""
    enough = {task: trials for task, trials in by_task(lines).items() if len(trials) >= min_trials}
    if not enough:
        return None
    values = {task: sum(t.within(k) for t in trials) / len(trials) for task, trials in enough.items()}
    worst = min(values, key=lambda task: values[task])
    least = values[worst]
    return WorstTask(worst, least, len(enough[worst]), sum(v == least for v in values.values()), len(values))

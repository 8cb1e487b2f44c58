"""Counterfactual credit of a memory: hide a piece of the first episode's and see how far the second falls.

The second episode is played twice behind the very same first one, with its memory and with the piece hidden.
Only trials whose first episode was lost have a second. The difference is paired by task (`paired`): masked
minus remembered, so a piece that helps gives a negative one.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.evaluation.lines import TrialLine
from agentmem.evaluation.paired import Difference, paired, per_task

SECOND = 1
"""Index of the episode that the memory of the first is for."""


def second_episode(
    remembered: Sequence[TrialLine], masked: Sequence[TrialLine]
) -> tuple[float, float, Difference]:
    """Success in the second episode with the memory, with the piece hidden, and the difference.

    The shares are over the trials that both have. Raises ValueError if there is none.
    """
    keys = {_key(line) for line in remembered if len(line.episodes) > SECOND}
    keys &= {_key(line) for line in masked if len(line.episodes) > SECOND}
    if not keys:
        raise ValueError("no trial has a second episode with and without the piece")
    arms = [[line for line in lines if _key(line) in keys] for lines in (remembered, masked)]
    shares = [sum(map(_second, lines)) / len(lines) for lines in arms]
    return shares[0], shares[1], paired(per_task(arms[0], _second), per_task(arms[1], _second))


def _second(line: TrialLine) -> float:
    return float(line.episodes[SECOND].solved)


def _key(line: TrialLine) -> tuple[int, str | int, int]:
    return line.seed, line.instance, line.sample

"""Advantages from a comparison within a group: GRPO, RLOO, and where LaMer applies them in a trial.

    GRPO mean_std   A_i = (x_i - mean(x)) / (std(x) + 1e-6)         arXiv 2402.03300
    GRPO mean       A_i = x_i - mean(x)                             the same without the division
    RLOO            A_i = x_i - mean_{j != i}(x_j)                  arXiv 2402.14740

std is the unbiased one (n-1). The peers of a member include the member itself. A group of one gives 0, and so
do equal values, exactly: rows of zero advantage can be dropped without a tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from learner.credit.returns import ReturnForm, TrialReturns, trial_returns
from learner.credit.trial import TrialAdvantages, TrialRewards, usable_rewards

Norm = Literal["mean", "mean_std"]
Baseline = Literal["trial", "episode"]
Compare = Callable[[Sequence[float]], list[float]]
"""The values of a group in, the advantage of each member out."""

STD_EPSILON = 1e-6
"""Added to a standard deviation before dividing by it, in the unit of the rewards."""


def grpo(values: Sequence[float], norm: Norm = "mean_std") -> list[float]:
    """Advantage of each value against the mean of all, divided by std + 1e-6 for `mean_std`."""
    if norm not in ("mean", "mean_std"):
        raise ValueError(f"unknown norm {norm!r}: mean or mean_std")
    n = len(values)
    if n < 2 or values.count(values[0]) == n:  # the mean of equal floats need not be that float
        return [0.0] * n
    mean = sum(values) / n
    centred = [x - mean for x in values]
    if norm == "mean":
        return centred
    std = math.sqrt(sum([x * x for x in centred]) / (n - 1))
    return [x / (std + STD_EPSILON) for x in centred]


def rloo(values: Sequence[float]) -> list[float]:
    """Advantage of each value against the mean of the others."""
    n = len(values)
    if n < 2 or values.count(values[0]) == n:
        return [0.0] * n
    total = sum(values)
    return [x - (total - x) / (n - 1) for x in values]


def comparison(estimator: Literal["grpo", "rloo"], norm: Norm) -> Compare:
    """The comparison of that name; RLOO knows no norm."""
    if estimator == "rloo":
        return rloo
    return lambda values: grpo(values, norm)


def trial_group_advantages(
    group: Sequence[TrialRewards],
    compare: Compare,
    *,
    gamma_step: float,
    gamma_traj: float,
    baseline: Baseline,
    return_form: ReturnForm = "paper",
) -> list[TrialAdvantages | None]:
    """Advantages of the turns of a group of trials on one task; None for a trial that is not usable.

    `trial`: every turn of a trial, reflections too, gets the advantage of its G_0^(0). `episode`: the act
    turns of episode n that of G_0^(n) among the group's episodes n, and the reflection n that of G_0^(n+1)
    among the group's reflections n. LaMer's cross-episode return is in all of these values.
    """
    if baseline not in ("trial", "episode"):
        raise ValueError(f"unknown baseline {baseline!r}: trial or episode")
    returns = group_returns(group, gamma_step=gamma_step, gamma_traj=gamma_traj, return_form=return_form)
    present = [i for i, one in enumerate(returns) if one is not None]
    known = [one for one in returns if one is not None]
    advantages: list[TrialAdvantages | None] = [None] * len(group)
    if baseline == "trial":
        for i, ret, value in zip(present, known, compare([one.start[0] for one in known]), strict=True):
            advantages[i] = TrialAdvantages(
                act=tuple((value,) * len(turns) for turns in ret.act), reflect=(value,) * group[i].reflections
            )
        return advantages
    episodes = compare_by_index([one.start for one in known], compare)
    reflections = reflection_advantages(group, returns, compare)
    for i, ret, values in zip(present, known, episodes, strict=True):
        advantages[i] = TrialAdvantages(
            act=tuple((value,) * len(turns) for value, turns in zip(values, ret.act, strict=True)),
            reflect=tuple(reflections[i]),
        )
    return advantages


def group_returns(
    group: Sequence[TrialRewards], *, gamma_step: float, gamma_traj: float, return_form: ReturnForm
) -> list[TrialReturns | None]:
    """The returns of each trial of a group, None where a trial is not usable."""
    returns: list[TrialReturns | None] = []
    for trial in group:
        rewards = usable_rewards(trial)
        returns.append(
            None
            if rewards is None
            else trial_returns(rewards, gamma_step=gamma_step, gamma_traj=gamma_traj, form=return_form)
        )
    return returns


def reflection_values(
    group: Sequence[TrialRewards], returns: Sequence[TrialReturns | None]
) -> list[list[float]]:
    """G_0^(n+1) of each reflection n of each trial; an empty list for a trial that is not usable."""
    return [
        [] if ret is None else ret.start[1 : 1 + trial.reflections]
        for trial, ret in zip(group, returns, strict=True)
    ]


def reflection_advantages(
    group: Sequence[TrialRewards], returns: Sequence[TrialReturns | None], compare: Compare
) -> list[list[float]]:
    """Advantages of the reflections of each trial, reflections n compared with reflections n only."""
    return compare_by_index(reflection_values(group, returns), compare)


def compare_by_index(
    rows: Sequence[Sequence[float]], compare: Compare, *, pooled_fallback: bool = False
) -> list[list[float]]:
    """Compare the n-th entries of all rows with each other, for every n; the rows may differ in length.

    An index that fewer than two rows reach gives 0, or with `pooled_fallback` what comparing all entries of
    all rows gives to that entry.
    """
    advantages: list[list[float]] = [[] for _ in rows]
    pooled: list[list[float]] | None = None
    for n in range(max(map(len, rows), default=0)):
        owners = [i for i, row in enumerate(rows) if len(row) > n]
        if len(owners) < 2 and pooled_fallback:
            if pooled is None:
                pooled = _compare_all(rows, compare)
            for i in owners:
                advantages[i].append(pooled[i][n])
            continue
        for i, value in zip(owners, compare([rows[i][n] for i in owners]), strict=True):
            advantages[i].append(value)
    return advantages


def _compare_all(rows: Sequence[Sequence[float]], compare: Compare) -> list[list[float]]:
    flat = iter(compare([value for row in rows for value in row]))
    return [[next(flat) for _ in row] for row in rows]

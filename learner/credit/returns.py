"""Returns across the episodes of a trial (LaMer, arXiv 2512.16848).

Rewards r_t^(n), turn t of episode n. The discounts are dimensionless, gamma_step between turns and gamma_traj
between episodes; a return has the unit of a reward.

    paper      g_t^(n) = Σ_{l>=t} γ_step^(l-t) r_l^(n)
               G_t^(n) = g_t^(n) + Σ_{m>n} γ_traj^(m-n) g_0^(m)
    chained    R_last^(n) = r_last^(n) + γ_traj R_0^(n+1)
               R_t^(n)    = r_t^(n) + γ_step R_{t+1}^(n)

The paper's form adds the later episodes to every turn of an episode undiscounted by the turns in between; the
chained form (the published code's) lets them shrink by γ_step on their way. In both, the reflection after
episode n is credited with G_0^(n+1), the return of the episode that it prepares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

ReturnForm = Literal["paper", "chained"]


@dataclass(frozen=True, slots=True)
class TrialReturns:
    """The returns of one trial.

    `act[n][t]` is G_t^(n). `start[n]` is G_0^(n), defined for an episode without turns too. `carried[n]` is
    what the later episodes add at the end of episode n: γ_traj G_0^(n+1), and 0 for the last episode.
    """

    act: list[list[float]]
    start: list[float]
    carried: list[float]

    @property
    def reflect(self) -> list[float]:
        """G_0^(n+1) for the reflection after episode n; one shorter than the list of episodes."""
        return self.start[1:]


def discounted(rewards: Sequence[float], gamma: float, tail: float = 0.0) -> list[float]:
    """Σ_{l>=t} γ^(l-t) r_l for every t, with `tail` added to the last reward."""
    returns = [0.0] * len(rewards)
    total, discount = tail, 1.0  # the tail joins the last reward as it is
    for t in range(len(rewards) - 1, -1, -1):
        total = rewards[t] + discount * total
        returns[t] = total
        discount = gamma
    return returns


def trial_returns(
    episodes: Sequence[Sequence[float]], *, gamma_step: float, gamma_traj: float, form: ReturnForm = "paper"
) -> TrialReturns:
    """Returns of every turn of a trial, from the rewards `episodes[n][t]`.

    Raises ValueError for an unknown form. An episode without turns passes the return of its successor on.
    """
    if form not in ("paper", "chained"):
        raise ValueError(f"unknown return form {form!r}: paper or chained")
    count = len(episodes)
    act: list[list[float]] = [[]] * count
    start = [0.0] * count
    carried = [0.0] * count
    following = 0.0  # γ_traj G_0^(n+1); in the paper's form this equals Σ_{m>n} γ_traj^(m-n) g_0^(m)
    for n in range(count - 1, -1, -1):
        if form == "chained":
            act[n] = discounted(episodes[n], gamma_step, tail=following)
        else:
            act[n] = [g + following for g in discounted(episodes[n], gamma_step)]
        carried[n] = following
        start[n] = act[n][0] if act[n] else following
        following = gamma_traj * start[n]
    return TrialReturns(act=act, start=start, carried=carried)

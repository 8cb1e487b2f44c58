"""The way in: a group of trials on one task -> one advantage per turn, by the name of the estimator.

All estimators get LaMer's return across episodes, so that comparing them compares the baselines and nothing
else. A method without several episodes (EMPO²) is the case of trials with one episode each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from learner.credit.gae import ppo
from learner.credit.gigpo import AnchorScope, gigpo
from learner.credit.groups import Baseline, Norm, comparison, trial_group_advantages
from learner.credit.returns import ReturnForm
from learner.credit.trial import TrialAdvantages, TrialRewards

Estimator = Literal["gigpo", "grpo", "rloo", "ppo"]


@dataclass(frozen=True, slots=True)
class Credit:
    """How a group is turned into advantages; the defaults are LaMer's (arXiv 2512.16848).

    `omega` and `anchor_scope` belong to gigpo, `baseline` to grpo and rloo, `lam` to ppo; `norm` to all but
    rloo. Raises ValueError for an unknown name or a discount outside [0, 1].
    """

    estimator: Estimator = "gigpo"
    gamma_step: float = 0.95
    gamma_traj: float = 0.6
    return_form: ReturnForm = "paper"
    norm: Norm = "mean"
    omega: float = 1.0
    anchor_scope: AnchorScope = "trial"
    baseline: Baseline = "trial"
    lam: float = 0.95

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} is {getattr(self, name)!r}: one of {', '.join(allowed)}")
        for name in ("gamma_step", "gamma_traj", "lam"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}: a discount lies in [0, 1]")


_CHOICES: dict[str, tuple[str, ...]] = {
    "estimator": get_args(Estimator),
    "return_form": get_args(ReturnForm),
    "norm": get_args(Norm),
    "anchor_scope": get_args(AnchorScope),
    "baseline": get_args(Baseline),
}


def assign(
    group: Sequence[TrialRewards],
    credit: Credit,
    values: Sequence[Sequence[Sequence[float]] | None] | None = None,
) -> list[TrialAdvantages | None]:
    """One advantage per turn for each trial of a group; None for a trial that is not usable: it has no rows.

    `values[i][n][t]` is needed for `ppo` alone: the value head's output for turn t of episode n of trial i.
    Raises ValueError when it is missing, or when GiGPO finds no observation for a turn.
    """
    if credit.estimator == "gigpo":
        return gigpo(
            group,
            gamma_step=credit.gamma_step,
            gamma_traj=credit.gamma_traj,
            omega=credit.omega,
            norm=credit.norm,
            anchor_scope=credit.anchor_scope,
            return_form=credit.return_form,
        )
    if credit.estimator == "ppo":
        if values is None:
            raise ValueError("PPO needs the value head's outputs, one per act turn")
        return ppo(
            group,
            values,
            gamma_step=credit.gamma_step,
            gamma_traj=credit.gamma_traj,
            lam=credit.lam,
            norm=credit.norm,
            return_form=credit.return_form,
        )
    return trial_group_advantages(
        group,
        comparison(credit.estimator, credit.norm),
        gamma_step=credit.gamma_step,
        gamma_traj=credit.gamma_traj,
        baseline=credit.baseline,
        return_form=credit.return_form,
    )

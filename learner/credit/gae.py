"""PPO's advantages: GAE within an episode (arXiv 1506.02438), LaMer's credit across episodes on top.

    δ_t = r_t + γ V_{t+1} - V_t          V = 0 behind the last turn
    A_t = Σ_{l>=0} (γλ)^l δ_{t+l}
    A_t^(n) += γ_traj G_0^(n+1)          in the paper's form = Σ_{m>n} γ_traj^(m-n) g_0^(m)
    target   = A + V

A value is that of the rest of its own episode, so that the credit across episodes is the same one as in the
group estimators. A reflection has no value: it gets the advantage of its G_0^(n+1) among the reflections n.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from learner.credit.groups import Norm, comparison, group_returns, reflection_advantages
from learner.credit.returns import ReturnForm, trial_returns
from learner.credit.trial import PerTurn, TrialAdvantages, TrialRewards, usable_rewards


def gae(rewards: Sequence[float], values: Sequence[float], *, gamma: float, lam: float) -> list[float]:
    """Generalised advantage estimates of one episode, one per turn; the episode ends after its last turn."""
    if len(rewards) != len(values):
        raise ValueError(f"{len(values)} values for {len(rewards)} rewards")
    advantages = [0.0] * len(rewards)
    running = following = 0.0
    for t in range(len(rewards) - 1, -1, -1):
        delta = rewards[t] + gamma * following - values[t]
        running = delta + gamma * lam * running
        following = values[t]
        advantages[t] = running
    return advantages


def ppo_trial(
    episodes: Sequence[Sequence[float]],
    values: Sequence[Sequence[float]],
    *,
    gamma_step: float,
    gamma_traj: float,
    lam: float,
    return_form: ReturnForm = "paper",
) -> tuple[PerTurn, PerTurn]:
    """Advantages and value targets of the act turns of one trial, both [episode][turn].

    `values[n][t]` is the value head's output at the last prompt token of turn t of episode n, in the unit of
    a return.
    """
    if len(episodes) != len(values):
        raise ValueError(f"values of {len(values)} episodes for {len(episodes)} episodes")
    returns = trial_returns(episodes, gamma_step=gamma_step, gamma_traj=gamma_traj, form=return_form)
    advantages = tuple(
        tuple([a + carried for a in gae(rewards, vs, gamma=gamma_step, lam=lam)])
        for rewards, vs, carried in zip(episodes, values, returns.carried, strict=True)
    )
    targets = tuple(
        tuple([a + v for a, v in zip(row, vs, strict=True)])
        for row, vs in zip(advantages, values, strict=True)
    )
    return advantages, targets


def ppo(
    group: Sequence[TrialRewards],
    values: Sequence[Sequence[Sequence[float]] | None],
    *,
    gamma_step: float,
    gamma_traj: float,
    lam: float,
    norm: Norm = "mean",
    return_form: ReturnForm = "paper",
) -> list[TrialAdvantages | None]:
    """Advantages and value targets of a group of trials; None for a trial that is not usable.

    `values[i]` has the shape of the rewards of trial i and may be None where that trial is not usable. `norm`
    concerns the reflections alone. Raises ValueError when values are missing or do not fit.
    """
    if len(values) != len(group):
        raise ValueError(f"values of {len(values)} trials for a group of {len(group)}")
    returns = group_returns(group, gamma_step=gamma_step, gamma_traj=gamma_traj, return_form=return_form)
    reflections = reflection_advantages(group, returns, comparison("grpo", norm))
    advantages: list[TrialAdvantages | None] = []
    for i, (trial, vs) in enumerate(zip(group, values, strict=True)):
        rewards = usable_rewards(trial)
        if rewards is None:
            advantages.append(None)
            continue
        if vs is None:
            raise ValueError(f"trial {i} is usable but has no values: PPO needs one per act turn")
        act, targets = ppo_trial(
            rewards, vs, gamma_step=gamma_step, gamma_traj=gamma_traj, lam=lam, return_form=return_form
        )
        advantages.append(TrialAdvantages(act=act, reflect=tuple(reflections[i]), value_targets=targets))
    return advantages


def explained_variance(credited: Iterable[TrialAdvantages | None]) -> float | None:
    """1 - Var(target - V) / Var(target) over the act turns of a batch: how well values foresee targets.

    1 is perfect, 0 no better than a constant, negative worse than one. The advantages must be those of `ppo`,
    unscaled, since target - V is the advantage. None without two different targets, or without any (other
    estimators).
    """
    targets: list[float] = []
    errors: list[float] = []
    for trial in credited:
        if trial is None or trial.value_targets is None:
            continue
        for row, advantages in zip(trial.value_targets, trial.act, strict=True):
            targets.extend(row)
            errors.extend(advantages)
    if len(targets) < 2:
        return None
    spread = statistics.pvariance(targets)
    return None if spread == 0.0 else 1.0 - statistics.pvariance(errors) / spread

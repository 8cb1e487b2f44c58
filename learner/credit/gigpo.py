"""GiGPO (arXiv 2505.10978) on LaMer's returns (arXiv 2512.16848): the default estimator.

    A = A_episode + ω A_step

    A_episode(trial i, episode n)  value G_0^(n) among the episodes n of the group's trials; with fewer than
                                   two of them, among all (trial, episode) pairs of the group
    A_episode(reflection n)        value G_0^(n+1) among the reflections n; with fewer than two, among all
    A_step(act turn t)             value G_t^(n) among the turns that were shown the identical observation, in
                                   any episode (anchor_scope `trial`) or at the same index (`episode`)
    A_step(reflection n)           value G_0^(n+1) among the reflections n, with no fall-back

Each comparison subtracts the mean of the peers (norm `mean`) and then divides by their unbiased std + 1e-6
(`mean_std`); fewer than two peers give 0. Reflections are compared with reflections only: next to actions
they would be pushed down whenever anything succeeds. A reflection with a peer so gets (1+ω) times its group
term.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from learner.credit.groups import Norm, compare_by_index, comparison, group_returns, reflection_values
from learner.credit.returns import ReturnForm, TrialReturns
from learner.credit.trial import TrialAdvantages, TrialRewards

AnchorScope = Literal["trial", "episode"]


def gigpo(
    group: Sequence[TrialRewards],
    *,
    gamma_step: float,
    gamma_traj: float,
    omega: float = 1.0,
    norm: Norm = "mean",
    anchor_scope: AnchorScope = "trial",
    return_form: ReturnForm = "paper",
) -> list[TrialAdvantages | None]:
    """Advantages of the turns of a group of trials on one task; None for a trial that is not usable.

    Every episode needs one observation text per reward. Raises ValueError otherwise, and for an unknown
    option.
    """
    if anchor_scope not in ("trial", "episode"):
        raise ValueError(f"unknown anchor scope {anchor_scope!r}: trial or episode")
    compare = comparison("grpo", norm)
    returns = group_returns(group, gamma_step=gamma_step, gamma_traj=gamma_traj, return_form=return_form)

    episode_term = compare_by_index(
        [[] if one is None else one.start for one in returns], compare, pooled_fallback=True
    )
    reflect_values = reflection_values(group, returns)
    reflect_term = compare_by_index(reflect_values, compare, pooled_fallback=True)
    reflect_step = compare_by_index(reflect_values, compare) if omega else reflect_term
    step_term = _anchor_terms(group, returns, norm, anchor_scope) if omega else None

    advantages: list[TrialAdvantages | None] = []
    for i, ret in enumerate(returns):
        if ret is None:
            advantages.append(None)
            continue
        if step_term is None:
            act = tuple((a,) * len(turns) for a, turns in zip(episode_term[i], ret.act, strict=True))
        else:
            act = tuple(
                tuple([a + omega * step for step in steps])
                for a, steps in zip(episode_term[i], step_term[i], strict=True)
            )
        reflect = tuple([a + omega * step for a, step in zip(reflect_term[i], reflect_step[i], strict=True)])
        advantages.append(TrialAdvantages(act=act, reflect=reflect))
    return advantages


def _anchor_terms(
    group: Sequence[TrialRewards],
    returns: Sequence[TrialReturns | None],
    norm: Norm,
    anchor_scope: AnchorScope,
) -> list[list[list[float]]]:
    """A_step of every act turn, [trial][episode][turn]; one comparison per distinct observation."""
    compare = comparison("grpo", norm)
    terms: list[list[list[float]]] = []
    # One table for the whole group, or one per episode index: observation -> where it was seen, its values.
    tables: dict[int, dict[str, tuple[list[tuple[list[float], int]], list[float]]]] = {}
    for i, ret in enumerate(returns):
        terms.append([] if ret is None else [[0.0] * len(turns) for turns in ret.act])
        if ret is None:
            continue
        for n, values in enumerate(ret.act):
            observations = group[i].episodes[n].observations
            if len(observations) != len(values):
                raise ValueError(
                    f"trial {i}, episode {n}: {len(observations)} observations for {len(values)} rewards; "
                    "GiGPO compares turns by the text that they were shown"
                )
            table = tables.setdefault(n if anchor_scope == "episode" else 0, {})
            row = terms[i][n]
            for t, observation in enumerate(observations):
                anchor = table.get(observation)
                if anchor is None:
                    anchor = table[observation] = ([], [])
                anchor[0].append((row, t))
                anchor[1].append(values[t])
    for table in tables.values():
        for places, values in table.values():
            if len(values) > 1:
                for (row, t), advantage in zip(places, compare(values), strict=True):
                    row[t] = advantage
    return terms

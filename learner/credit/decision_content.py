"""Mem-π's decoupled advantages for the decision and the content of a hint (arXiv 2605.21463).

A structured group on one context: branch 0 abstains, the branches j = 1..G-1 generate a hint m_j.

    R_j     = task reward - λ min(|m_j| / L_max, 1)      generate branches; R_0 the task reward of abstaining
    V_gen   = mean_{j>=1} R_j         Δ = V_gen - R_0     R̄, σ over all G     σ_g over the generate branches
    A_d(y_0) = (R_0 - R̄) / max(σ, s0)
    A_d(y_j) = (V_gen - R̄) / max(σ, s0)
    A_c(y_j) = (R_j - V_gen) / max(σ_g, s0), times the gate
    gate     = 1 if Δ > 0 else 0 (`hard`), 1 always (`none`)

σ and σ_g are unbiased; σ_g = 0 for one generate branch. The floor s0 (reward units) keeps a group in which
nobody solves the task from teaching abstention at full strength for the length penalty alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Gate = Literal["hard", "none"]


@dataclass(frozen=True, slots=True)
class DecisionContentAdvantages:
    """Advantages of a structured group; tuples have one entry per generate branch, None where it failed.

    `adv_abstain` is A_d of the abstention, `adv_generate` the A_d that every generate branch shares,
    `adv_content` the gated A_c of each hint. `rewards` are the R_j, length term included.
    """

    rewards: tuple[float | None, ...]
    v_gen: float
    delta: float
    gate: float
    adv_abstain: float
    adv_generate: float
    adv_content: tuple[float | None, ...]


def decision_content(
    reward_abstain: float | None,
    task_rewards: Sequence[float | None],
    hint_tokens: Sequence[int],
    *,
    l_max: int = 256,
    length_weight: float = 0.1,
    std_floor: float = 0.1,
    gate: Gate = "hard",
) -> DecisionContentAdvantages | None:
    """Advantages of one structured group, or None when it has nothing to compare.

    `reward_abstain` is the mean task reward of the runs without a hint, `task_rewards[j]` that of generate
    branch j and `hint_tokens[j]` the length of its hint. A branch whose run failed (None or non-finite) is
    nobody's peer; without the abstention, or without any generate branch, there is no Δ and so no group.
    """
    if gate not in ("hard", "none"):
        raise ValueError(f"unknown gate {gate!r}: hard or none")
    rewards = _penalised(task_rewards, hint_tokens, l_max, length_weight)
    _check_floor(std_floor)
    known = [reward for reward in rewards if reward is not None]
    if reward_abstain is None or not math.isfinite(reward_abstain) or not known:
        return None
    v_gen = _mean(known)
    delta = v_gen - reward_abstain
    everyone = [reward_abstain, *known]
    r_bar = _mean(everyone)
    sigma = max(_std(everyone), std_floor)
    sigma_g = max(_std(known), std_floor)
    open_gate = 1.0 if gate == "none" or delta > 0.0 else 0.0
    return DecisionContentAdvantages(
        rewards=tuple(rewards),
        v_gen=v_gen,
        delta=delta,
        gate=open_gate,
        adv_abstain=(reward_abstain - r_bar) / sigma,
        adv_generate=(v_gen - r_bar) / sigma,
        adv_content=tuple(None if r is None else open_gate * (r - v_gen) / sigma_g for r in rewards),
    )


def sampled_decisions(
    abstained: Sequence[bool],
    task_rewards: Sequence[float | None],
    hint_tokens: Sequence[int],
    *,
    l_max: int = 256,
    length_weight: float = 0.1,
    std_floor: float = 0.1,
    gate: Gate = "hard",
) -> list[tuple[float, float] | None]:
    """The ablation without a structured group: (A_d, A_c) of each answer when the decisions were sampled.

    The same equations with R_0 replaced by the mean over the answers that abstained. A group in which all
    answers decided alike has no Δ: its decisions get 0, and its hints are compared with each other, the gate
    open. An answer whose run failed gets None.
    """
    if gate not in ("hard", "none"):
        raise ValueError(f"unknown gate {gate!r}: hard or none")
    if len(abstained) != len(task_rewards):
        raise ValueError(f"{len(abstained)} decisions for {len(task_rewards)} rewards")
    _check_floor(std_floor)
    lengths = [0 if silent else length for silent, length in zip(abstained, hint_tokens, strict=True)]
    rewards = _penalised(task_rewards, lengths, l_max, length_weight)
    silent_known = [r for r, silent in zip(rewards, abstained, strict=True) if silent and r is not None]
    spoken_known = [r for r, silent in zip(rewards, abstained, strict=True) if not silent and r is not None]
    everyone = silent_known + spoken_known
    v_gen = _mean(spoken_known) if spoken_known else 0.0
    adv_abstain = adv_generate = 0.0
    open_gate = 1.0
    if silent_known and spoken_known:
        v_abstain, r_bar, sigma = _mean(silent_known), _mean(everyone), max(_std(everyone), std_floor)
        adv_abstain, adv_generate = (v_abstain - r_bar) / sigma, (v_gen - r_bar) / sigma
        open_gate = 1.0 if gate == "none" or v_gen > v_abstain else 0.0
    sigma_g = max(_std(spoken_known), std_floor)
    return [
        None
        if reward is None
        else (adv_abstain, 0.0)
        if silent
        else (adv_generate, open_gate * (reward - v_gen) / sigma_g)
        for reward, silent in zip(rewards, abstained, strict=True)
    ]


def _penalised(
    task_rewards: Sequence[float | None], hint_tokens: Sequence[int], l_max: int, length_weight: float
) -> list[float | None]:
    if len(task_rewards) != len(hint_tokens):
        raise ValueError(f"{len(hint_tokens)} hint lengths for {len(task_rewards)} task rewards")
    if l_max <= 0:
        raise ValueError(f"l_max is {l_max}: a hint's length limit is positive")
    return [
        None if r is None or not math.isfinite(r) else r - length_weight * min(tokens / l_max, 1.0)
        for r, tokens in zip(task_rewards, hint_tokens, strict=True)
    ]


def _check_floor(std_floor: float) -> None:
    if not std_floor > 0.0:
        raise ValueError(
            f"std_floor is {std_floor}: it divides where rewards are equal, so it must be positive"
        )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _std(values: Sequence[float]) -> float:
    """Unbiased; 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    mean = _mean(values)
    return math.sqrt(math.fsum([(x - mean) ** 2 for x in values]) / (len(values) - 1))

"""One runner per section of a file of test vectors: a case's inputs -> the outputs to compare, by field name.

A runner reads the inputs that it uses from the case, and what it returns is compared field by field with the
case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from agentmem.evaluation.pass_at_k import pass_at_k
from agentmem.memory.novelty import StateNovelty
from learner.credit.assign import Credit, assign
from learner.credit.decision_content import decision_content
from learner.credit.gae import gae, ppo_trial
from learner.credit.groups import grpo, rloo
from learner.credit.returns import trial_returns
from learner.credit.trial import EpisodeRewards, TrialAdvantages, TrialRewards
from learner.objectives.empo2 import empo2_surrogate, old_logprob, stabilising_mask
from learner.objectives.policy import clipped_surrogate, importance_weights

Case = Mapping[str, Any]
Outcome = dict[str, Any]


def _trial_returns(case: Case) -> Outcome:
    discounts = {"gamma_step": case["gamma_step"], "gamma_traj": case["gamma_traj"]}
    paper = trial_returns(case["episodes"], **discounts, form="paper")
    chained = trial_returns(case["episodes"], **discounts, form="chained")
    return {
        "returns": paper.act,
        "reflection_returns": paper.reflect,
        "chained_returns": chained.act,
        "chained_reflection_returns": chained.reflect,
    }


def _group_advantages(case: Case) -> Outcome:
    scores = case["scores"]
    return {
        "grpo_mean_std": grpo(scores, "mean_std"),
        "grpo_mean": grpo(scores, "mean"),
        "rloo": rloo(scores),
    }


def _gigpo(case: Case) -> Outcome:
    credit = Credit(
        estimator="gigpo",
        gamma_step=case["gamma_step"],
        gamma_traj=case["gamma_traj"],
        return_form=case.get("return_form", "paper"),
        omega=case["omega"],
        norm=case["norm"],
        anchor_scope=case["anchor_scope"],
    )
    return {"advantages": _plain(assign(_group(case["trials"]), credit))}


def _trial_group_advantages(case: Case) -> Outcome:
    group = _group(case["trials"])
    options = {
        "gamma_step": case["gamma_step"],
        "gamma_traj": case["gamma_traj"],
        "return_form": case.get("return_form", "paper"),
        "norm": case["norm"],
        "baseline": case["baseline"],
    }
    return {
        "grpo": _plain(assign(group, Credit(estimator="grpo", **options))),
        "rloo": _plain(assign(group, Credit(estimator="rloo", **options))),
    }


def _gae(case: Case) -> Outcome:
    return {"advantages": gae(case["rewards"], case["values"], gamma=case["gamma"], lam=case["lambda"])}


def _ppo_trial(case: Case) -> Outcome:
    advantages, targets = ppo_trial(
        case["episodes"],
        case["values"],
        gamma_step=case["gamma_step"],
        gamma_traj=case["gamma_traj"],
        lam=case["lambda"],
        return_form=case.get("return_form", "paper"),
    )
    pairs = zip(advantages, targets, strict=True)
    return {"expected": [{"advantages": act, "targets": target} for act, target in pairs]}


def _truncated_importance(case: Case) -> Outcome:
    new, old, engine = (_tensor(case[name]) for name in ("logp_new", "logp_old", "logp_engine"))
    mask = torch.ones_like(new, dtype=torch.bool)
    weights = importance_weights(old, engine, mask, mode=case["mode"], cap=case["cap"])
    surrogate = clipped_surrogate(
        new,
        old,
        _tensor(case["adv"]),
        mask,
        clip_low=case["clip_low"],
        clip_high=case["clip_high"],
        weights=weights,
    )
    return {"weights": weights.tolist(), "surrogate": surrogate.tolist()}


def _empo2(case: Case) -> Outcome:
    student, behaviour_old, student_old = (
        _tensor(case[name]) for name in ("logp_student", "logp_behaviour_old", "logp_student_old")
    )
    mask = torch.ones_like(student, dtype=torch.bool)
    kept = stabilising_mask(student, mask, delta=case["delta"])
    surrogate = empo2_surrogate(
        student,
        old_logprob(case["old"], behaviour_old, student_old),
        _tensor(case["adv"]),
        mask,
        kept,
        clip_low=case["clip_low"],
        clip_high=case["clip_high"],
    )
    return {"mask": kept.long().tolist(), "surrogate": surrogate.tolist()}


def _mempi(case: Case) -> Outcome:
    group = decision_content(
        case["reward_abstain"],
        case["task_rewards"],
        case["hint_tokens"],
        l_max=case["l_max"],
        length_weight=case["length_weight"],
        std_floor=case["std_floor"],
        gate=case["gate"],
    )
    if group is None:
        return {"expected": None}
    names = ("rewards", "v_gen", "delta", "gate", "adv_abstain", "adv_generate", "adv_content")
    return {"expected": {name: getattr(group, name) for name in names}}


def _novelty(case: Case) -> Outcome:
    # Double precision: a file's cosines may lie closer to τ than a float32 can tell.
    return {"intrinsic": StateNovelty(case["tau"], dtype=np.float64).visit_all(case["visits"])}


def _pass_at_k(case: Case) -> Outcome:
    shares = pass_at_k(case["successes"], k_max=len(case["p_at_k"]))
    return {"p_at_k": [share.value for share in shares]}


SECTIONS: dict[str, Callable[[Case], Outcome]] = {
    "trial_returns": _trial_returns,
    "gigpo": _gigpo,
    "group_advantages": _group_advantages,
    "gae": _gae,
    "trial_group_advantages": _trial_group_advantages,
    "ppo_trial": _ppo_trial,
    "truncated_importance": _truncated_importance,
    "novelty": _novelty,
    "empo2": _empo2,
    "mempi": _mempi,
    "pass_at_k": _pass_at_k,
}


def _group(trials: Sequence[Any]) -> list[TrialRewards]:
    """A trial's reflections stand between its episodes; `null` for a whole trial is one that failed."""
    return [
        TrialRewards((), valid=False)
        if trial is None
        else TrialRewards(
            tuple(EpisodeRewards(tuple(e["rewards"]), tuple(e.get("obs", ()))) for e in trial["episodes"]),
            reflections=max(len(trial["episodes"]) - 1, 0),
        )
        for trial in trials
    ]


def _plain(advantages: Sequence[TrialAdvantages | None]) -> list[Any]:
    return [None if one is None else {"act": one.act, "reflect": one.reflect} for one in advantages]


def _tensor(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)

"""EMPO²'s objective (arXiv 2602.23008): rolled out with tips, trained on the prompt without them.

    ρ = π_θ(a | s, u) / old        old = π_old(a | s, u, tips)  `behaviour` (default)
                                   old = π_old(a | s, u)        `student`
    surrogate = mask · min(ρ A, clip(ρ, 1-ε_lo, 1+ε_hi) A)

and the stabilising mask takes the advantage term from a token whose probability is below δ: without its tips
the student may find an action so unlikely that its gradient, 1/π, tears the policy apart. The mask removes
the advantage term only: a masked token still counts in the mean and keeps its KL term.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from learner.objectives.masking import inside
from learner.objectives.policy import clipped_surrogate

Source = Literal["student", "behaviour"]
MaskScope = Literal["token", "turn"]

DEFAULT_DELTA = math.exp(-5.0)
"""δ of the public code, about 0.0067; the paper gives none."""


def old_logprob(old: Source, logp_behaviour_old: Tensor, logp_student_old: Tensor | None) -> Tensor:
    """The old log-prob of the off-policy update; `student` needs a forward pass on the student prompt."""
    if old == "behaviour":
        return logp_behaviour_old
    if old != "student":
        raise ValueError(f"unknown source {old!r}: student or behaviour")
    if logp_student_old is None:
        raise ValueError("old: student needs the old policy's log-probs on the student prompt")
    return logp_student_old


@torch.no_grad()
def stabilising_mask(
    logp: Tensor,
    mask: Tensor,
    *,
    delta: float = DEFAULT_DELTA,
    scope: MaskScope = "token",
    turn: Tensor | None = None,
) -> Tensor:
    """True where the advantage term stays: on trained tokens with exp(logp) >= δ.

    `logp` is the student's or the behaviour's log-prob, as `mask_source` says. With scope `turn` one token
    below δ takes the term from all tokens of its turn; `turn` then holds a turn number >= 0 for every token
    (any number outside the mask).
    """
    if scope not in ("token", "turn"):
        raise ValueError(f"unknown mask scope {scope!r}: token or turn")
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta is {delta}: a probability threshold lies in [0, 1)")
    threshold = math.log(delta) if delta > 0.0 else -math.inf
    low = mask & (inside(mask, logp) < threshold)
    if scope == "token":
        return mask & ~low
    if turn is None:
        raise ValueError("mask scope turn needs the turn number of every token")
    number = torch.where(mask, turn, 0)
    size = int(number.max()) + 1 if number.numel() else 0
    spoiled = torch.zeros(size, dtype=torch.bool, device=logp.device)
    spoiled[number[low]] = True
    return mask & ~spoiled[number]


def empo2_surrogate(
    logp_student: Tensor,
    logp_old: Tensor,
    advantage: Tensor,
    mask: Tensor,
    kept: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.3,
) -> Tensor:
    """The surrogate of every token, to be maximised; 0 where `kept` (`stabilising_mask`) or `mask` is False.

    `mask` stays what the mean divides by: average the result over it, not over `kept`.
    """
    return clipped_surrogate(
        logp_student, logp_old, advantage, mask & kept, clip_low=clip_low, clip_high=clip_high
    )


@torch.no_grad()
def masked_count(mask: Tensor, kept: Tensor) -> Tensor:
    """How many trained tokens lost their advantage term (0-d); over all of them, the masked share."""
    return (mask & ~kept).sum()

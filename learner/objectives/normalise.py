"""From per-token terms to a mean whose denominator is the whole update's.

    token      Σ_i x_i / N_tokens                              every trained token weighs the same (default)
    sequence   Σ_i x_i / (|sequence of i| · N_sequences)       every training sequence weighs the same
    trial      Σ_i x_i / (|trial of i| · N_trials)             every trial weighs the same

N are the counts over all ranks and micro-batches, |·| the number of trained tokens of the unit. A call
returns its share of the mean, and the shares add up. Token and trial means do not depend on how a trial is
cut into sequences; the sequence mean does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from learner.objectives.masking import inside

Mean = Literal["token", "sequence", "trial"]


@dataclass(frozen=True, slots=True)
class Counts:
    """How many trained tokens, sequences and trials the update has, over all ranks and micro-batches."""

    tokens: float
    sequences: float = 0.0
    trials: float = 0.0


def normalised_mean(
    values: Tensor, mask: Tensor, counts: Counts, *, mean: Mean = "token", unit_tokens: Tensor | None = None
) -> Tensor:
    """This call's share of the mean of `values` over the trained tokens of the update: a scalar.

    `unit_tokens` holds for every token the number of trained tokens of its sequence or trial; in a `sequence`
    mean of padded rows it may be left out, a row then being a sequence. Raises ValueError when it is missing
    otherwise, or when tokens are to be averaged over a count of zero.
    """
    if mean not in ("token", "sequence", "trial"):
        raise ValueError(f"unknown mean {mean!r}: token, sequence or trial")
    kept = inside(mask, values)
    if mean == "token":
        return _share(kept.sum(), counts.tokens, "tokens")
    if unit_tokens is None:
        if mean == "trial" or mask.dim() < 2:
            raise ValueError(f"a {mean} mean needs unit_tokens, the trained tokens of each token's {mean}")
        unit_tokens = mask.sum(dim=-1, keepdim=True)
    units = counts.sequences if mean == "sequence" else counts.trials
    return _share((kept / unit_tokens.clamp(min=1)).sum(), units, f"{mean}s")


def _share(total: Tensor, count: float, what: str) -> Tensor:
    if count > 0:
        return total / count
    # Nothing to average anywhere in the update: a zero that still has its place in the graph.
    if bool((total != 0).any()):
        raise ValueError(f"the update's count of {what} is {count}, yet there are trained tokens")
    return total * 0.0

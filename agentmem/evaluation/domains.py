"""An evaluation of a mixture of environments, told by domain: success, abstention, length of hints.

Shares have Wilson's interval. The *mean over domains* weighs each domain alike, however many tasks it has;
its interval is made of theirs, as that of a difference is (Newcombe 1998; Zou and Donner 2008 for sums): with
shares p_d in [l_d, u_d], mean − √Σ(p_d − l_d)² / D and mean + √Σ(u_d − p_d)² / D. Domains are independent.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import msgspec

from agentmem.evaluation.lines import TrialLine
from agentmem.evaluation.pass_at_k import Share, pass_at_k, wilson


class DomainFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Of one domain under one condition. `low`, `high`: 95 % intervals."""

    n: int
    p_at_k: list[float]
    low: list[float]
    high: list[float]
    score: float | None = None
    abstained: list[float] | None = None
    """Share of the advice that abstained, and its interval; None without advice. What came late isn't
    counted."""
    hint_tokens: float | None = None
    """Mean of a trial; an abstention has none."""
    trained: bool = True
    """False: a domain that was left out of training."""

    def share(self, k: int) -> Share:
        """p@(k+1)."""
        return Share(self.p_at_k[k], self.low[k], self.high[k], self.n)


def lines_by_domain(lines: Sequence[TrialLine]) -> dict[str, list[TrialLine]]:
    """In order of first appearance; empty where the environment is no mixture."""
    found: dict[str, list[TrialLine]] = {}
    for line in lines:
        if line.domain:
            found.setdefault(line.domain, []).append(line)
    return found


def figures_by_domain(
    lines: Sequence[TrialLine], episodes: int, left_out: Collection[str] = ()
) -> dict[str, DomainFigures]:
    """The figures of each domain; none where the environment is no mixture."""
    return {
        domain: _figures(own, episodes, trained=domain not in left_out)
        for domain, own in lines_by_domain(lines).items()
    }


def _figures(lines: Sequence[TrialLine], episodes: int, *, trained: bool) -> DomainFigures:
    shares = pass_at_k([line.solved for line in lines], episodes)
    scores = [line.score for line in lines if line.score is not None]
    given = [advice for line in lines for advice in line.advice if not advice.late]
    silent = wilson(sum(a.decision == "abstain" for a in given), len(given)) if given else None
    return DomainFigures(
        n=len(lines),
        p_at_k=[share.value for share in shares],
        low=[share.low for share in shares],
        high=[share.high for share in shares],
        score=sum(scores) / len(scores) if scores else None,
        abstained=None if silent is None else [silent.value, silent.low, silent.high],
        hint_tokens=sum(a.hint_tokens for a in given) / len(lines) if given else None,
        trained=trained,
    )


def mean_over_domains(shares: Sequence[Share]) -> Share:
    """See the module's docstring; `n` is the number of all trials. Raises ValueError for no share."""
    if not shares:
        raise ValueError("no domain has no mean")
    count = len(shares)
    value = math.fsum(share.value for share in shares) / count
    below = math.hypot(*(share.value - share.low for share in shares)) / count
    above = math.hypot(*(share.high - share.value for share in shares)) / count
    return Share(value, max(0.0, value - below), min(1.0, value + above), sum(s.n for s in shares))

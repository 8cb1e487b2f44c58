"""Held-out success and abstention by domain, where a run's environment is a mixture of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentmem.app.reporting.records import Record, updates_of
from agentmem.app.reporting.table import aligned, before_and_after
from agentmem.evaluation.domains import DomainFigures, mean_over_domains
from agentmem.evaluation.pass_at_k import Share

MEAN = "mean of domains"
LEFT_OUT = "*"


def domain_table(
    rows: Sequence[tuple[Sequence[str], Mapping[str, DomainFigures]]], heads: Sequence[str]
) -> str:
    """A row for each domain of each evaluation, and one for their mean; empty without domains.

    `rows`: what says which evaluation it is, under `heads`, and its figures.
    """
    rows = [(names, domains) for names, domains in rows if domains]
    if not rows:
        return ""
    every = [figures for _, domains in rows for figures in domains.values()]
    ks = max(len(figures.p_at_k) for figures in every)
    advised = any(figures.abstained is not None for figures in every)
    scored = any(figures.score is not None for figures in every)
    header = ["domain", *heads, "n", *(f"p@{k + 1}" for k in range(ks)), *["score"] * scored]
    header += ["abstained", "hint tokens"] * advised
    body: list[list[str]] = []
    for domain in dict.fromkeys(name for _, domains in rows for name in domains):
        for names, domains in rows:
            if domain in domains:
                one = domains[domain]
                name = domain if one.trained else domain + LEFT_OUT
                body.append([name, *names, str(one.n), *(cell(one.share(k)) for k in range(ks))])
                body[-1] += [_number(one.score, 3)] * scored
                body[-1] += [_abstained(one), _number(one.hint_tokens, 2)] * advised
    for names, domains in rows:
        means = [mean_over_domains([one.share(k) for one in domains.values()]) for k in range(ks)]
        body.append([MEAN, *names, str(means[0].n), *map(cell, means)])
        body[-1] += ["-"] * (len(header) - len(body[-1]))
    note = "[ ]: 95 % binomial intervals (Wilson); the mean's are made of theirs"
    if not all(figures.trained for figures in every):
        note += f"; {LEFT_OUT} left out of training"
    return "\n".join([*aligned(header, body), note])


def run_domains(records: Sequence[Record]) -> str:
    """Of a run: before and after, by condition; and what its training trials did."""
    rows = []
    for condition, pair in before_and_after(records).items():
        memory = condition.removesuffix("_memory")
        for when, record in (("before", pair.before), ("after", pair.after)):
            if record is not None:
                when = when if pair.after is not None else f"{record.update} updates"
                rows.append(((memory, when), record.domains))
    texts = [domain_table(rows, ("memory", "training")), training_domains(records)]
    return "\n\n".join(filter(None, texts))


def training_domains(records: Sequence[Record]) -> str:
    """Groups and success in training by domain, over all updates; empty without domains."""
    totals: dict[str, list[float]] = {}
    for update in updates_of(records):
        for domain, one in update.domains.items():
            sums = totals.setdefault(domain, [0.0, 0.0, 0.0])
            sums[0] += one["groups"]
            sums[1] += one["trials"]
            sums[2] += one["solved"]
    if not totals:
        return ""
    groups = sum(sums[0] for sums in totals.values())
    body = [
        [name, f"{g:.0f}", f"{g / groups:.2f}", f"{trials:.0f}", f"{solved / max(trials, 1):.3f}"]
        for name, (g, trials, solved) in totals.items()
    ]
    return "\n".join(aligned(["trained on", "groups", "share", "trials", "solved in training"], body))


def cell(share: Share) -> str:
    """A share with its interval."""
    return f"{share.value:.3f} [{share.low:.3f}-{share.high:.3f}]"


def _abstained(figures: DomainFigures) -> str:
    if figures.abstained is None:
        return "-"
    value, low, high = figures.abstained
    return cell(Share(value, low, high, figures.n))


def _number(value: float | None, places: int) -> str:
    return "-" if value is None else f"{value:.{places}f}"

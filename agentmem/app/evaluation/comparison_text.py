"""A comparison as tables of plain text, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from agentmem.app.evaluation.comparison import Arm, Comparison, Pair, Point, Training
from agentmem.app.evaluation.table import memory_name
from agentmem.app.reporting.domain_table import domain_table
from agentmem.app.reporting.table import INTERVALS, aligned
from agentmem.evaluation.budget import Cost
from agentmem.evaluation.pass_at_k import Share


def as_json(comparison: Comparison) -> str:
    """The whole comparison, indented."""
    return msgspec.json.format(msgspec.json.encode(comparison), indent=2).decode()


def as_text(comparison: Comparison) -> str:
    """All tables that have something to say, each under its heading."""
    parts = [
        ("Success on held-out tasks", _success(comparison)),
        ("Success by domain", _domains(comparison.arms)),
        ("Differences, paired by task", _differences(comparison)),
        (f"Differences of p@{comparison.k} by domain", _domain_differences(comparison.pairs)),
        ("Equal budgets of a trial", _budgets(comparison)),
        ("Behaviour and costs", _behaviour(comparison.arms)),
        ("Training", _training(comparison)),
        ("Equal budgets of training", _training_budgets(comparison)),
    ]
    text = "\n\n".join(f"{title}\n\n{body}" for title, body in parts if body)
    notes = "\n".join(f"note: {note}" for note in comparison.notes)
    return f"{text}\n\n{notes}" if notes else text


def share_text(share: Share | None) -> str:
    """A share with its interval."""
    return "-" if share is None else f"{share.value:.3f} [{share.low:.3f}-{share.high:.3f}]"


def cost_text(cost: str, value: float) -> str:
    """A budget with its unit."""
    return f"{value:,.1f} s" if cost == Cost.WALL else f"{value:,.0f} {cost}"


def _success(comparison: Comparison) -> str:
    scored = any(arm.score is not None for arm in comparison.arms)
    header = ["arm", "memory", "updates", "tasks", "n", *(f"p@{k + 1}" for k in range(comparison.k))]
    body = [
        [
            *(*_named(arm), str(arm.update), str(arm.tasks), str(arm.p_at_k[0].n)),
            *map(share_text, arm.p_at_k),
            *([] if not scored else ["-" if arm.score is None else f"{arm.score:.3f}"]),
        ]
        for arm in comparison.arms
    ]
    return "\n".join([*aligned(header + ["score"] * scored, body), f"[ ]: {INTERVALS}"])


def _differences(comparison: Comparison) -> str:
    header = [
        "difference",
        "tasks",
        *(f"p@{k + 1}" for k in range(comparison.k)),
        "better/worse",
        "sign test",
    ]
    body = []
    for pair in comparison.pairs:
        last = pair.differences[-1]
        cells = [f"{d.value:+.3f} [{d.low:+.3f},{d.high:+.3f}]" for d in pair.differences]
        body.append([pair_name(pair), str(last.tasks), *cells, f"{last.wins}/{last.losses}", p_text(last.p)])
    note = (
        "[ ]: 95 % paired bootstrap over tasks; better/worse and the exact sign test: tasks at the last p@k"
    )
    return "\n".join([*aligned(header, body), note])


def _domains(arms: Sequence[Arm]) -> str:
    return domain_table([(_named(arm), arm.domains) for arm in arms], ("arm", "memory"))


def _domain_differences(pairs: Sequence[Pair]) -> str:
    body = [
        [
            domain,
            pair_name(pair),
            str(d.tasks),
            f"{d.value:+.3f} [{d.low:+.3f},{d.high:+.3f}]",
            f"{d.wins}/{d.losses}",
            p_text(d.p),
        ]
        for domain in dict.fromkeys(name for pair in pairs for name in pair.domains)
        for pair in pairs
        if (d := pair.domains.get(domain)) is not None
    ]
    header = ["domain", "difference", "tasks", "", "better/worse", "sign test"]
    return "\n".join(aligned(header, body)) if body else ""


def _named(arm: Arm) -> tuple[str, str]:
    return arm.name.source, memory_name(arm.name.condition)


def pair_name(pair: Pair, minus: str = "-") -> str:
    """What is subtracted from what."""
    a, b = pair.a, pair.b
    of_a, of_b = a.condition.replace("_", " "), b.condition.replace("_", " ")
    if pair.within_source:
        return f"{b.source}: {of_b} {minus} {of_a}"
    if of_a == of_b:
        return f"{b.source} {minus} {a.source}, {of_a}"
    return f"{b} {minus} {a}"


def p_text(p: float) -> str:
    """A p-value."""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def _budgets(comparison: Comparison) -> str:
    header = ["arm", "memory", *(f"within {cost_text(c, v)}" for c, v in comparison.cuts.items())]
    body = [[*_named(arm), *(share_text(arm.within[c]) for c in comparison.cuts)] for arm in comparison.arms]
    note = (
        "solved at a cost of at most so much a trial; the cut is the least of the arms' dearest trials "
        "(sampled tokens, reflections counted; seconds depend on what else was in flight)"
    )
    return "\n".join([*aligned(header, body), note])


def _behaviour(arms: Sequence[Arm]) -> str:
    kinds = list(dict.fromkeys(kind for arm in arms for kind in arm.spent.tokens))
    columns = ["arm", "memory", "same failure again", "same action again", "unusable"]
    entropic, worst = any(a.entropy for a in arms), any(a.worst_task for a in arms)
    columns += ["entropy"] * entropic + ["worst task"] * worst
    columns += ["episodes", "turns", *(f"{kind} tokens" for kind in kinds), "prompt tokens", "wall s"]
    body = []
    for arm in arms:
        total, n = arm.spent, arm.spent.trials
        row = [
            *_named(arm),
            share_text(arm.repeat_failure),
            share_text(arm.fixation),
        ]
        row.append("-" if arm.unusable is None else f"{arm.unusable.value:.3f}")
        if entropic:
            row.append("-" if arm.entropy is None else f"{arm.entropy.value:.2f}")
        if worst:
            found = arm.worst_task
            row.append("-" if found is None else f"{found.value:.2f} ({found.shared_by} of {found.tasks})")
        row += [f"{total.episodes / n:.2f}", f"{total.turns / n:.1f}"]
        row += [f"{total.tokens.get(kind, 0) / n:.1f}" for kind in kinds]
        row += [f"{total.prompt_tokens / n:.0f}", f"{total.wall_s / n:.2f}"]
        body.append(row)
    return "\n".join([*aligned(columns, body), "episodes, turns, tokens and seconds: mean of a trial"])


def _training(comparison: Comparison) -> str:
    if not comparison.training:
        return ""
    header = ["run", "updates", *(cost.value for cost in Cost)]
    body = [
        [t.source, str(t.updates), *(f"{t.spent[cost]:,.0f}" for cost in Cost)] for t in comparison.training
    ]
    return "\n".join(aligned(header, body))


def _training_budgets(comparison: Comparison) -> str:
    if not comparison.training_cuts:
        return ""
    cuts = comparison.training_cuts
    header = ["run", "memory", *(f"p@{comparison.k} after {cost_text(c, v)}" for c, v in cuts.items())]
    body = []
    for training in comparison.training:
        for condition in dict.fromkeys(point.condition for point in training.points):
            cells = (_at_cut(training, cost, condition) for cost in cuts)
            body.append([training.source, memory_name(condition), *cells])
    note = "the last evaluation made before a run had spent the least of the runs' totals (u: its update)"
    return "\n".join([*aligned(header, body), note])


def _at_cut(training: Training, cost: str, condition: str) -> str:
    point: Point | None = training.at_cut.get(cost, {}).get(condition)
    if point is None:
        return "-"
    return f"{point.p_at_k[-1]:.3f} [{point.low[-1]:.3f}-{point.high[-1]:.3f}] u{point.update}"

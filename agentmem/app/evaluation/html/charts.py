"""The report's plots, each from a comparison to an `<svg>`."""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.app.evaluation.comparison import Comparison, Name, Pair, Point
from agentmem.app.evaluation.comparison_text import p_text, pair_name
from agentmem.app.evaluation.html.looks import Look
from agentmem.app.evaluation.html.svg import Plot, compact
from agentmem.evaluation.budget import Cost, budget_curve
from agentmem.evaluation.lines import TrialLine

AXES = {
    Cost.EPISODES: "episodes",
    Cost.TOKENS: "sampled tokens",
    Cost.WALL: "wall time [s]",
}


def percent(value: float) -> str:
    """A share as a whole percentage."""
    return f"{100 * value:.0f}%"


def bars(comparison: Comparison, looks: dict[Name, Look]) -> str:
    """p@1 … p@k, a bar an arm, with 95 % intervals."""
    arms, k = comparison.arms, comparison.k
    plot = Plot(900, 320, (0.0, float(k)), (0.0, 1.0), top=34, bottom=28)
    plot.y_axis("share of tasks solved", percent)
    slot = plot.x(1) - plot.x(0)
    width = min(54.0, 0.78 * slot / len(arms))
    base = plot.y(0)
    for n in range(k):
        start = plot.x(n) + (slot - width * len(arms)) / 2
        for i, arm in enumerate(arms):
            look, share = looks[arm.name], arm.p_at_k[n]
            left, top = start + i * width, plot.y(share.value)
            about = f"{arm.name}: p@{n + 1} {share.value:.3f} [{share.low:.3f}-{share.high:.3f}], n {share.n}"
            bar = (left + 2, top, width - 4, base - top)
            plot.rect(*bar, rx=2, fill="var(--card)")  # so that no grid shines through a tint
            plot.rect(*bar, about, rx=2, fill=look.colour, fill_opacity=look.tint)
            centre = left + width / 2
            low, high = plot.y(share.low), plot.y(share.high)
            plot.line((centre, low), (centre, high), "error")
            for end in (low, high):
                plot.line((centre - 4, end), (centre + 4, end), "error")
            if width >= 26:
                plot.text(centre, high - 6, percent(share.value), "value")
        plot.text(plot.x(n) + slot / 2, base + 20, f"p@{n + 1}", "group")
    plot.line((plot.left, base), (plot.width - plot.right, base), "base")
    return plot.render("Share of tasks solved within k episodes")


_ROW = 21.0


def forest(comparison: Comparison) -> str:
    """The paired differences with their intervals, and how many tasks went better, alike and worse."""
    pairs = comparison.pairs
    ends = [end for pair in pairs for d in pair.differences for end in (d.low, d.high)]
    reach = max(0.1, *map(abs, ends)) * 1.08
    rows = sum(len(pair.differences) + 1.35 for pair in pairs)
    plot = Plot(900, 62 + _ROW * rows, (-reach, reach), (0.0, 1.0), left=52, right=450, top=26, bottom=36)
    bottom = plot.height - plot.bottom
    plot.x_axis("difference in the share of tasks solved", lambda v: f"{v:+.1f}" if v else "0")
    plot.line((plot.x(0), plot.top), (plot.x(0), bottom), "zero")
    plot.text(plot.width - 434, 16, "difference [95 %]", "axis", anchor="start")
    plot.text(plot.width - 272, 16, "tasks: better · alike · worse", "axis", anchor="start")
    y = plot.top + 4
    for pair in pairs:
        y += _ROW
        plot.text(8, y, pair_name(pair, "−"), "pair", anchor="start")
        for k, _ in enumerate(pair.differences):
            y += _ROW
            _forest_row(plot, pair, k, y)
        y += 0.35 * _ROW
    return plot.render("Paired differences between arms")


def _forest_row(plot: Plot, pair: Pair, k: int, y: float) -> None:
    d = pair.differences[k]
    kind = "better" if d.low > 0 else "worse" if d.high < 0 else "open"
    middle = y - 4
    plot.text(44, y, f"p@{k + 1}", "tick", anchor="end")
    plot.line((plot.x(d.low), middle), (plot.x(d.high), middle), f"interval {kind}")
    about = f"{pair_name(pair)}, p@{k + 1}: {d.value:+.3f} [{d.low:+.3f},{d.high:+.3f}]"
    plot.rect(plot.x(d.value) - 4, middle - 4, 8, 8, about, class_=f"mark {kind}", rx=1.5)
    text = f"{d.value:+.3f} [{d.low:+.3f}, {d.high:+.3f}]"
    plot.text(plot.width - 434, y, text, "cell", anchor="start")
    left, width, alike = plot.width - 272, 130.0, d.tasks - d.wins - d.losses
    for count, which in ((d.wins, "better"), (alike, "alike"), (d.losses, "worse")):
        share = width * count / d.tasks
        plot.rect(left, middle - 6, share, 12, f"{count} tasks {which}", class_=f"part {which}")
        left += share
    plot.text(plot.width - 134, y, f"{d.wins}·{alike}·{d.losses}", "cell", anchor="start")
    plot.text(plot.width - 4, y, p_text(d.p), "faint", anchor="end")


def training(comparison: Comparison, looks: dict[Name, Look], cost: Cost) -> str:
    """p@k over what training has cost, with 95 % intervals; the dashed line is the equal budget."""
    curves = {
        Name(run.source, condition): [p for p in run.points if p.condition == condition]
        for run in comparison.training
        for condition in dict.fromkeys(point.condition for point in run.points)
    }
    most = max(_spent(point, cost) for points in curves.values() for point in points)
    plot = Plot(330, 270, (0.0, most or 1.0), (0.0, 1.0))
    plot.y_axis(f"p@{comparison.k}", percent)
    plot.x_axis(f"{AXES[cost]} in training", most=4)
    cut = comparison.training_cuts.get(cost)
    if cut is not None:
        plot.line((plot.x(cut), plot.top), (plot.x(cut), plot.height - plot.bottom), "cut")
    for name, points in curves.items():
        look = looks.get(name, Look("var(--faint)", 1.0, None))
        lower = [(_spent(p, cost), p.low[-1]) for p in points]
        upper = [(_spent(p, cost), p.high[-1]) for p in points]
        if look.tint == 1.0:
            plot.band(lower, upper, fill=look.colour, fill_opacity=0.13)
        middle = [(_spent(p, cost), p.p_at_k[-1]) for p in points]
        plot.path(middle, stroke=look.colour, stroke_width=2.2, stroke_dasharray=look.dash)
        for point, at in zip(points, middle, strict=True):
            share = f"{point.p_at_k[-1]:.3f} [{point.low[-1]:.3f}-{point.high[-1]:.3f}]"
            about = f"{name}, update {point.update}: p@{len(point.p_at_k)} {share}"
            plot.dot(at, about, fill="var(--card)" if look.dash else look.colour, stroke=look.colour)
    return plot.render(f"p@{comparison.k} over {AXES[cost]} of training")


def _spent(point: Point, cost: Cost) -> float:
    return float(getattr(point, cost.value))


def budget(
    comparison: Comparison, arms: Sequence[tuple[Name, list[TrialLine]]], looks: dict[Name, Look], cost: Cost
) -> str:
    """Success within a budget a trial; arms are comparable up to the dashed line."""
    curves = {name: budget_curve(lines, cost) for name, lines in arms}
    plot = Plot(440, 300, (0.0, max(curve[-1][0] for curve in curves.values()) or 1.0), (0.0, 1.0))
    plot.y_axis("share of trials solved", percent)
    plot.x_axis(f"{AXES[cost]} of a trial, at most", compact, most=5)
    if len(curves) > 1:
        cut = plot.x(comparison.cuts[cost])
        plot.line((cut, plot.top), (cut, plot.height - plot.bottom), "cut")
    for name, curve in curves.items():
        steps = [curve[0]]
        for x, y in curve[1:]:
            steps += [(x, steps[-1][1]), (x, y)]
        look = looks[name]
        plot.path(steps, stroke=look.colour, stroke_width=2.2, stroke_dasharray=look.dash)
    return plot.render(f"Success within a budget in {AXES[cost]}")


def tokens(comparison: Comparison, looks: dict[Name, Look]) -> str:
    """Where an arm's tokens go: mean of a trial, by kind (sampled), and the prompts read."""
    arms = comparison.arms
    kinds = list(dict.fromkeys(kind for arm in arms for kind in arm.spent.tokens))
    largest = max(arm.spent.sampled_tokens / arm.spent.trials for arm in arms)
    plot = Plot(
        900, 14 + 30 * len(arms), (0.0, largest or 1.0), (0.0, 1.0), left=270, right=250, top=8, bottom=0
    )
    for i, arm in enumerate(arms):
        y, look, n = 8 + 30 * i, looks[arm.name], arm.spent.trials
        plot.text(plot.left - 12, y + 15, str(arm.name), "name", anchor="end")
        left = plot.left
        for j, kind in enumerate(kinds):
            mean = arm.spent.tokens.get(kind, 0) / n
            width = plot.x(mean) - plot.left
            opacity = look.tint * (1.0 - 0.3 * j)
            about = f"{arm.name}: {mean:.1f} {kind} tokens a trial"
            plot.rect(left, y, width, 20, about, fill=look.colour, fill_opacity=opacity, rx=2)
            left += width
        parts = " + ".join(f"{arm.spent.tokens.get(kind, 0) / n:.1f} {kind}" for kind in kinds)
        plot.text(
            left + 8, y + 15, f"{parts}, {arm.spent.prompt_tokens / n:.0f} read", "cell", anchor="start"
        )
    return plot.render("Tokens of a trial")

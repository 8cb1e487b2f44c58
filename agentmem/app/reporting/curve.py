"""The picture of a learning curve: p@k of the training trials as lines, held-out evaluations as points.

Lines are moving averages over `WINDOW` updates; points have their 95 % intervals, filled with memory, hollow
without. The horizontal axis is the update or the wall time since the run's start.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentmem.app.reporting.progress import WINDOW
from agentmem.app.reporting.records import EvalRecord, Record, UpdateRecord, evals_of, p_at_k_over, updates_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Axis = Literal["update", "time"]

_COLOURS = ("#6baed6", "#2171b5", "#08306b")
"""p@1, p@2, p@3 and beyond: one hue, darker with k, told apart in print and by the colour-blind."""


def moving_averages(updates: Sequence[UpdateRecord], window: int = WINDOW) -> list[list[float]]:
    """For each update, p@k over the trials of the last `window` updates."""
    return [p_at_k_over(updates[max(0, n + 1 - window) : n + 1]) for n in range(len(updates))]


def place(record: EvalRecord, updates: Sequence[UpdateRecord], axis: Axis) -> float:
    """Where an evaluation stands: at its update, or at the time of the last update before it (0: none)."""
    if axis == "update":
        return float(record.update)
    index = bisect_right([u.update for u in updates], record.update)
    return updates[index - 1].t / 60 if index else 0.0


def draw_curve(records: Sequence[Record], path: Path, title: str = "", axis: Axis = "update") -> Path:
    """Draw the PNG and return its path. Needs matplotlib; touches none of its global state."""
    part = path.with_name(path.name + ".part")
    figure(records, title, axis).savefig(part, format="png")
    part.replace(path)
    return path


def figure(records: Sequence[Record], title: str = "", axis: Axis = "update") -> Figure:
    """The picture, not yet written."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    updates, evals = updates_of(records), evals_of(records)
    made = Figure(figsize=(8.6, 4.8), dpi=150, layout="constrained")
    FigureCanvasAgg(made)
    axes: Axes = made.add_subplot()
    ks = max([*(len(u.p_at_k) for u in updates), *(len(e.p_at_k) for e in evals)], default=0)
    _draw_training(axes, updates, ks, axis)
    _draw_evals(axes, evals, updates, ks, axis)
    axes.set_ylim(0, 1)
    axes.set_ylabel("share of trials solved within k episodes")
    axes.set_xlabel("update" if axis == "update" else "wall time [min]")
    axes.margins(x=0.03)
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    spent = f"{len(updates)} updates in {updates[-1].t / 60:.1f} min" if updates else ""
    axes.set_title("   ".join(t for t in (title, spent) if t), loc="left", fontsize=11)
    _legend(axes, evals, ks)
    return made


def _colour(k: int) -> str:
    return _COLOURS[min(k, len(_COLOURS) - 1)]


def _draw_training(axes: Axes, updates: Sequence[UpdateRecord], ks: int, axis: Axis) -> None:
    averages = moving_averages(updates)
    for k in range(ks):
        points = [(u, a[k]) for u, a in zip(updates, averages, strict=True) if k < len(a)]
        x = [float(u.update) if axis == "update" else u.t / 60 for u, _ in points]
        axes.plot(x, [y for _, y in points], color=_colour(k), linewidth=1.8)


def _draw_evals(
    axes: Axes, evals: Sequence[EvalRecord], updates: Sequence[UpdateRecord], ks: int, axis: Axis
) -> None:
    places = [place(record, updates, axis) for record in evals]
    aside = 0.012 * (max(places, default=0.0) - min(places, default=0.0))
    for x, record in zip(places, evals, strict=True):
        with_memory = record.condition == "with_memory"
        x = x if with_memory else x + aside  # else the two conditions hide each other
        for k in range(min(ks, len(record.p_at_k))):
            p = record.p_at_k[k]
            error = [[max(0.0, p - record.low[k])], [max(0.0, record.high[k] - p)]]
            axes.errorbar(
                x,
                p,
                yerr=error,
                fmt="o" if with_memory else "s",
                color=_colour(k),
                markerfacecolor=_colour(k) if with_memory else "white",
                markersize=6,
                capsize=3,
                linewidth=1.2,
                zorder=3,
                clip_on=False,
            )


def _legend(axes: Axes, evals: Sequence[EvalRecord], ks: int) -> None:
    from matplotlib.lines import Line2D

    entries: list[Any] = [
        Line2D([], [], color=_colour(k), linewidth=1.8, label=f"p@{k + 1}, training")
        for k in reversed(range(ks))
    ]
    marks = {
        "with_memory": ("o", "#444444", "held out,\nwith memory"),
        "without_memory": ("s", "white", "held out,\nwithout memory"),
    }
    present = {e.condition for e in evals}
    entries += [
        Line2D([], [], color="#444444", linestyle="", marker=mark, markerfacecolor=face, label=label)
        for condition, (mark, face, label) in marks.items()
        if condition in present
    ]
    if entries:
        axes.legend(handles=entries, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))

"""Draws a dashboard from live Prometheus data into one picture, for documents; no Grafana is needed.

    python deploy/grafana/draw.py deploy/grafana/overview.json http://127.0.0.1:9090 --last 10m

Every panel is drawn at its place: time series as lines (stacked where the panel says so), stats as their last
value. A panel without data says so. Options: `--run REGEX` (the variable `$run`), `--window 1m` (the rates').
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POINTS = 240
CELL = (0.62, 0.42)
"""Inches of a cell of Grafana's grid, which has 24 in a row."""
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class Series:
    """A line: its legend, times, values."""

    legend: str
    times: list[float]
    values: list[float]


def seconds(text: str) -> int:
    """`10m` -> 600."""
    match = re.fullmatch(r"([1-9]\d*)([smhd])", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write it as 90s, 10m, 1h")
    return int(match[1]) * UNITS[match[2]]


def concrete(expression: str, run: str, window: str) -> str:
    """An expression as Grafana would send it."""
    return expression.replace("$__rate_interval", window).replace("$run", run)


def legend(pattern: str, labels: dict[str, str]) -> str:
    """`{{run}} {{role}}` with a series' labels."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), pattern).strip()


def ask(prometheus: str, path: str, **parameters: Any) -> list[dict[str, Any]]:
    """The result of a query. Raises SystemExit with one line."""
    url = f"{prometheus.rstrip('/')}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return result
    except urllib.error.HTTPError as error:
        why = json.load(error).get("error", error.reason)
        raise SystemExit(f"error: {prometheus} refuses {parameters['query']}: {why}") from None
    except OSError as error:
        raise SystemExit(f"error: {prometheus} can't be asked: {error}") from None


def fetch(
    panel: dict[str, Any], prometheus: str, *, run: str, window: str, start: float, end: float
) -> list[Series]:
    """All series of a panel between two times."""
    found = []
    step = max(1.0, (end - start) / POINTS)
    for target in panel["targets"]:
        query = concrete(target["expr"], run, window)
        for each in ask(prometheus, "query_range", query=query, start=start, end=end, step=step):
            points = [(float(t), float(value)) for t, value in each["values"] if value != "NaN"]
            if points:
                name = legend(target.get("legendFormat", ""), each["metric"])
                found.append(Series(name, [t for t, _ in points], [v for _, v in points]))
    return found


def shown(value: float, unit: str) -> str:
    """A number as a stat panel shows it."""
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "bytes":
        return f"{value / 2**20:.3g} MiB"
    return f"{value:.4g} s" if unit == "s" else f"{value:.4g}"


def draw(
    board: dict[str, Any], prometheus: str, out: Path, *, run: str, window: str, last: int
) -> dict[str, int]:
    """Draw all panels; returns how many series each has."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    end = time.time()
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"]) + 2
    figure = pyplot.figure(figsize=(24 * CELL[0], height * CELL[1]), facecolor="white")
    figure.text(0.01, 1 - 1 / height, board["title"], fontsize=15, weight="bold", va="center")
    counts = {}
    for panel in board["panels"]:
        place = panel["gridPos"]
        left, top = place["x"] / 24, (place["y"] + 2) / height
        if panel["type"] == "row":
            figure.text(left + 0.01, 1 - top - 0.5 / height, panel["title"], fontsize=12, va="center")
            continue
        series = fetch(panel, prometheus, run=run, window=window, start=end - last, end=end)
        counts[panel["title"]] = len(series)
        area = (
            left + 0.035,
            1 - top - (place["h"] - 1.1) / height,
            place["w"] / 24 - 0.05,
            (place["h"] - 2.2) / height,
        )
        _panel(figure.add_axes(area), panel, series, end)
    figure.savefig(out, dpi=90)
    pyplot.close(figure)
    return counts


def _panel(axes: Any, panel: dict[str, Any], series: Sequence[Series], end: float) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    unit = defaults.get("unit", "short")
    axes.set_title(panel["title"], fontsize=8, loc="left")
    axes.tick_params(labelsize=6)
    if not series or panel["type"] == "stat":
        axes.axis("off")
        text = "\n".join(shown(each.values[-1], unit) for each in series) or "no data"
        size = max(18 // len(series), 6) if series else 8  # several runs stand one below the other
        axes.text(0.5, 0.45, text, ha="center", va="center", fontsize=size, transform=axes.transAxes)
        return
    stacked = defaults.get("custom", {}).get("stacking", {}).get("mode") == "normal"
    if stacked:
        times = sorted({t for each in series for t in each.times})
        rows = [dict(zip(each.times, each.values, strict=True)) for each in series]
        values = [[row.get(t, 0.0) for t in times] for row in rows]
        names = [each.legend for each in series]
        axes.stackplot([t - end for t in times], values, labels=names, alpha=0.6, linewidth=0)
    else:
        for each in series:
            marker = "." if len(each.times) == 1 else None
            axes.plot([t - end for t in each.times], each.values, label=each.legend, lw=1, marker=marker)
    axes.set_ylim(bottom=defaults.get("min"), top=defaults.get("max"))
    axes.set_xlabel("seconds", fontsize=6, labelpad=1)
    axes.grid(alpha=0.25)
    if unit == "percentunit":
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    if unit == "bytes":
        axes.yaxis.set_major_formatter(lambda value, _: f"{value / 2**20:.3g} MiB")
    axes.legend(fontsize=5, loc="upper left", framealpha=0.6)


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description="Draw a dashboard from live Prometheus data.")
    parser.add_argument("dashboard", type=Path)
    parser.add_argument("prometheus", help="http://host:port")
    parser.add_argument("-o", "--out", type=Path, default=Path("dashboard.png"))
    parser.add_argument("--run", default=".*", help="which runs (a regular expression)")
    parser.add_argument("--last", type=seconds, default=600, help="how far back, as 10m")
    parser.add_argument("--window", default="1m", help="window of rates")
    given = parser.parse_args(arguments)
    try:
        board = json.loads(given.dashboard.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"error: {given.dashboard} is no dashboard: {error}") from None
    counts = draw(board, given.prometheus, given.out, run=given.run, window=given.window, last=given.last)
    empty = [title for title, count in counts.items() if not count]
    sys.stdout.write(f"{given.out}: {len(counts)} panels, {len(empty)} without data\n")


if __name__ == "__main__":
    main()

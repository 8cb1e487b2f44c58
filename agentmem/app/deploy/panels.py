"""The few kinds of panels that our dashboards are made of, over grafana-foundation-sdk's builders.

A panel says what it shows, in which unit, and by which expressions. `$run` chooses runs, and the window of
rates is the one that Grafana thinks right (`$__rate_interval`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentmem.app.deploy.names import promql

DATASOURCE = "${datasource}"
GRID = 24
RUN = 'run=~"$run"'


@dataclass(frozen=True, slots=True)
class Query:
    """An expression and the legend of its series."""

    expr: str
    legend: str = "{{run}}"


@dataclass(frozen=True, slots=True)
class PanelSpec:
    """One panel. `kind`: `timeseries`, `stat` or `table`; `unit` as Grafana names it."""

    title: str
    about: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 7
    stacked: bool = False
    low: float | None = None
    high: float | None = None
    steps: tuple[tuple[float, str], ...] = ()
    """Thresholds: from which value on which colour (from 0 on: green)."""


@dataclass(frozen=True, slots=True)
class Row:
    """A heading with its panels."""

    title: str
    panels: tuple[PanelSpec, ...]


def rate(metric: str, by: str, where: str = "") -> str:
    """Per second, summed by labels: counters of processes that died stay right."""
    labels = ", ".join(filter(None, [RUN, where]))
    return f"sum by ({by}) (rate({metric}{{{labels}}}[$__rate_interval]))"


def recent(metric: str, by: str, window: str) -> str:
    """The increase within a window."""
    return f"sum by ({by}) (increase({metric}{{{RUN}}}[{window}]))"


def last(metric: str, by: str = "run", where: str = "") -> str:
    """A gauge, of which a run has one series (or the highest counts)."""
    labels = ", ".join(filter(None, [RUN, where]))
    return f"max by ({by}) ({metric}{{{labels}}})"


def quantile(metric: str, q: float, by: str) -> str:
    """Of a histogram."""
    return f"histogram_quantile({q:g}, {rate(metric + '_bucket', f'{by}, le')})"


def build(spec: PanelSpec, prefix: str) -> Any:
    """The builder of a panel. Raises ConfigError for an unknown metric."""
    from grafana_foundation_sdk.builders import common as commons
    from grafana_foundation_sdk.builders import dashboard as boards
    from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
    from grafana_foundation_sdk.models import common, dashboard

    kinds: dict[str, Callable[[], Any]] = {
        "timeseries": timeseries.Panel,
        "stat": stat.Panel,
        "table": table.Panel,
    }
    panel = kinds[spec.kind]()
    panel.title(spec.title).description(spec.about).unit(spec.unit).height(spec.height).span(spec.width)
    panel.datasource(datasource())
    panel.interval("15s")
    if spec.low is not None:
        panel.min(spec.low)
    if spec.high is not None:
        panel.max(spec.high)
    if spec.steps:
        steps = [dashboard.Threshold(value=0, color="green")]
        steps += [dashboard.Threshold(value=value, color=color) for value, color in spec.steps]
        panel.thresholds(boards.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps))
    for index, query in enumerate(spec.queries):
        target = prometheus.Dataquery().expr(promql(query.expr, prefix)).legend_format(query.legend)
        target.ref_id(chr(ord("A") + index)).datasource(datasource())
        if spec.kind == "table":
            target.instant().format(prometheus_format())
        else:
            target.range()
        panel.with_target(target)
    if spec.kind == "timeseries":
        legend = commons.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST)
        panel.legend(legend.placement(common.LegendPlacement.BOTTOM).show_legend(True).calcs([]))
        panel.tooltip(
            commons.VizTooltipOptions()
            .mode(common.TooltipDisplayMode.MULTI)
            .sort(common.SortOrder.DESCENDING)
        )
        panel.line_width(1).fill_opacity(30 if spec.stacked else 8).show_points(common.VisibilityMode.NEVER)
        if spec.stacked:
            panel.stacking(commons.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    if spec.kind == "stat":
        panel.reduce_options(commons.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        panel.graph_mode(common.BigValueGraphMode.AREA)
    return panel


def datasource() -> Any:
    """The Prometheus that the dashboard's variable names."""
    from grafana_foundation_sdk.models.common import DataSourceRef

    return DataSourceRef(type_val="prometheus", uid=DATASOURCE)


def prometheus_format() -> Any:
    """Rows instead of time series."""
    from grafana_foundation_sdk.models.prometheus import PromQueryFormat

    return PromQueryFormat.TABLE

"""PromQL in terms of the table of metrics: a name that isn't defined makes no expression.

Expressions are written with the names of `agentmem/telemetry/definitions.py`; `promql` checks each and puts
the prefix before it that the chosen backend's endpoint has (none, or Ray's `ray_`).
"""

from __future__ import annotations

import difflib
import re

from agentmem.failures import ConfigError
from agentmem.telemetry import METRICS, Kind

PREFIXES = ("", "ray_")
"""As they are exported by the prometheus backend, and by Ray's."""
_NAME = re.compile(r"\bagentmem_\w+")


def series_of(name: str) -> str | None:
    """The metric that a series belongs to; None if there is none.

    Of a histogram only buckets and their number exist: Ray rounds its sum, which a counter beside it has.
    """
    if name in METRICS:
        return name if METRICS[name].kind is not Kind.HISTOGRAM else None
    for suffix in ("_bucket", "_count"):
        base = name.removesuffix(suffix)
        if base != name and base in METRICS and METRICS[base].kind is Kind.HISTOGRAM:
            return base
    return None


def metrics_in(expression: str) -> set[str]:
    """Metrics that an expression names, prefixed or not. Raises ConfigError for one that isn't defined."""
    found = set()
    for name in re.findall(r"\b(?:ray_)?(agentmem_\w+)", expression):
        metric = series_of(name)
        if metric is None:
            near = difflib.get_close_matches(name, METRICS, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ConfigError(
                f"{expression}: {name} is no series of a metric; {hint}"
                "they are defined in agentmem/telemetry/definitions.py"
            )
        found.add(metric)
    return found


def promql(expression: str, prefix: str = "") -> str:
    """The expression for an endpoint's prefix. Raises ConfigError for an unknown metric or prefix."""
    if prefix not in PREFIXES:
        raise ConfigError(f"prefix is {prefix!r}: allowed are {', '.join(map(repr, PREFIXES))}")
    if not metrics_in(expression):
        raise ConfigError(f"{expression}: names no metric of agentmem")
    return _NAME.sub(lambda match: prefix + match[0], expression)

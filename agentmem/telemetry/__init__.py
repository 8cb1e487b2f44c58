"""Metrics: one table of definitions, one facade, exchangeable backends. Knows no Ray."""

from agentmem.telemetry.definitions import METRICS, Definition, Kind
from agentmem.telemetry.facade import Backend, Metrics

__all__ = ["METRICS", "Backend", "Definition", "Kind", "Metrics"]

"""OpenTelemetry traces: where spans go, and how many trials have any.

Spans leave by OTLP over HTTP in batches, from a thread; a collector that is away costs spans, never a trial.
Address and headers are OpenTelemetry's own variables (OTEL_EXPORTER_OTLP_ENDPOINT, default
http://localhost:4318; OTEL_EXPORTER_OTLP_HEADERS), set where the agent actors run.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from agentmem.failures import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

EXPORTER = "opentelemetry.exporter.otlp.proto.http"
END_MS = 2000
"""What spans under way are given at the end."""


def check_traces(share: float) -> None:
    """Raises ConfigError if traces are wanted and OpenTelemetry's exporter isn't installed."""
    try:
        found = share == 0 or importlib.util.find_spec(EXPORTER) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        raise ConfigError(
            f"telemetry.traces is {share:g}: needs {EXPORTER}, which isn't installed: "
            "pip install 'agentmem[traces]'"
        )


def open_traces(share: float, *, run: str, process: str) -> TracerProvider:
    """A source of tracers: `share` of the traces, in [0, 1], are recorded whole, and sent.

    `process` names the actor among those of its `run`. Close it with `close_traces`.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    about = Resource.create({"service.name": "agentmem", "service.instance.id": process, "agentmem.run": run})
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(share)), resource=about, shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def close_traces(provider: TracerProvider) -> None:
    """Send what is pending, for a bounded time. Blocks."""
    provider.force_flush(END_MS)
    provider.shutdown()

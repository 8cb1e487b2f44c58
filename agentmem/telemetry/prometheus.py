"""Backends over prometheus_client: series that are written out on request, and the same behind a port."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from agentmem.failures import ConfigError
from agentmem.telemetry.definitions import METRICS, Definition, Kind


class PrometheusSeries:
    """An own registry, so that several runs of one process don't meet. `names`: which metrics; None: all."""

    def __init__(self, names: Collection[str] | None = None) -> None:
        import prometheus_client as prom

        self._registry = prom.CollectorRegistry()
        self._series: dict[str, Any] = {}
        for definition in METRICS.values() if names is None else [METRICS[name] for name in names]:
            self._make(definition)

    def text(self) -> bytes:
        """All series, as Prometheus reads them."""
        import prometheus_client as prom

        return bytes(prom.generate_latest(self._registry))

    def _make(self, definition: Definition) -> None:
        import prometheus_client as prom

        names = ("run", *definition.tags)
        if definition.kind is Kind.HISTOGRAM:
            made: Any = prom.Histogram(
                definition.name, definition.help, names, buckets=definition.buckets, registry=self._registry
            )
        else:
            maker: Any = prom.Counter if definition.kind is Kind.COUNTER else prom.Gauge
            made = maker(definition.name, definition.help, names, registry=self._registry)
        self._series[definition.name] = made

    def _get(self, definition: Definition, tags: dict[str, str]) -> Any:
        return self._series[definition.name].labels(**tags)

    def count(self, definition: Definition, amount: float, tags: dict[str, str]) -> None:
        self._get(definition, tags).inc(amount)

    def gauge(self, definition: Definition, value: float, tags: dict[str, str]) -> None:
        self._get(definition, tags).set(value)

    def observe(self, definition: Definition, value: float, tags: dict[str, str]) -> None:
        self._get(definition, tags).observe(value)


class PrometheusBackend(PrometheusSeries):
    """With an HTTP endpoint on the driver's machine. `port` 0 picks a free one."""

    def __init__(self, port: int = 0, host: str = "127.0.0.1") -> None:
        import prometheus_client as prom

        super().__init__()
        try:
            self._server, self._thread = prom.start_http_server(port, host, registry=self._registry)
        except OSError as error:
            raise ConfigError(
                f"telemetry.port is {port}: can't listen on {host}: {error.strerror}"
            ) from error
        self.url = f"http://{host}:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

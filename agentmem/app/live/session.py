"""What every command with live parts needs around them: log, view, Ctrl-C, metrics, the model, Ray."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.app.live.interrupt import InterruptFlag
from agentmem.app.reporting.rundir import RunDir
from agentmem.app.reporting.view import LiveView
from agentmem.config import RunConfig
from agentmem.telemetry import Backend, Metrics

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class Session:
    """Open until its context ends."""

    view: LiveView
    flag: InterruptFlag
    metrics: Metrics
    models: Mapping[str, Path]
    """Directory of the model of each policy that is served."""


@contextmanager
def session(
    config: RunConfig,
    run: RunDir,
    console: Console,
    *,
    updates: int,
    done: int = 0,
    model: Path | None = None,
    learns: bool = True,
) -> Iterator[Session]:
    """`updates`: of the whole run, `done` of them already. `model`: in the place of the trained policy's."""
    from agentmem.app.live.joining import resources, start_ray
    from agentmem.app.models.resolve import resolve_for

    logging.basicConfig(
        filename=run.logs / "driver.log", level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    with ExitStack() as stack:
        view = stack.enter_context(LiveView(run.name, updates, done, console=console))
        flag = stack.enter_context(InterruptFlag())
        backend = own_endpoint(config, view, stack)

        def on_progress(text: str, done: int, total: int) -> None:
            flag.check()
            view.phase(text, done, total)

        view.note(f"run: {run.path}")
        models = {
            name: model
            if model is not None and name == config.learning
            else resolve_for(config, name, on_progress=on_progress)
            for name in config.served
        }
        view.phase("starting Ray")
        import ray

        stack.callback(ray.shutdown)
        start_ray(
            resources(config, learns=learns),
            machine_wait_s=config.scaling.machine_wait_s,
            say=view.phase,
            pause=flag.wait,
        )
        flag.install()  # ray.init() puts its own handlers in place
        backend = through_ray(config, stack) or backend
        yield Session(view, flag, Metrics(run.name, backend), models)


def own_endpoint(config: RunConfig, view: LiveView, stack: ExitStack) -> Backend | None:
    """The driver's endpoint for metrics, open as long as `stack`, if the run has one; its address is told."""
    from agentmem.telemetry.prometheus import PrometheusBackend

    if config.telemetry.backend != "prometheus":
        return None
    endpoint = PrometheusBackend(config.telemetry.port)
    stack.callback(endpoint.close)
    view.note(f"metrics: {endpoint.url}")
    return endpoint


def through_ray(config: RunConfig, stack: ExitStack) -> Backend | None:
    """The way of metrics through Ray, which runs, if the run takes it. `stack` must end before Ray."""
    if config.telemetry.backend != "ray":
        return None
    from actors.ray_metrics import RayBackend

    backend = RayBackend()
    stack.callback(backend.close)
    return backend

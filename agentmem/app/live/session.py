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
    from agentmem.app.live.system import resources, start_ray
    from agentmem.app.models.resolve import resolve_for
    from agentmem.telemetry.prometheus import PrometheusBackend

    logging.basicConfig(
        filename=run.logs / "driver.log", level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    with ExitStack() as stack:
        view = stack.enter_context(LiveView(run.name, updates, done, console=console))
        flag = stack.enter_context(InterruptFlag())
        backend: Backend | None = None
        if config.telemetry.backend == "prometheus":
            endpoint = PrometheusBackend(config.telemetry.port)
            stack.callback(endpoint.close)
            view.note(f"metrics: {endpoint.url}")
            backend = endpoint

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
        start_ray(resources(config, learns=learns))
        flag.install()  # ray.init() puts its own handlers in place
        if config.telemetry.backend == "ray":
            from actors.ray_metrics import RayBackend

            through_ray = RayBackend()
            stack.callback(through_ray.close)  # before Ray ends
            backend = through_ray
        yield Session(view, flag, Metrics(run.name, backend), models)

"""MLflow: a run of the experiment `agentmem` (or MLFLOW_EXPERIMENT_NAME), tagged with our run's name.

The server is MLFLOW_TRACKING_URI; without one MLflow keeps its files where the command was started.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

TAG = "agentmem.run"
METRICS_A_CALL, PARAMS_A_CALL = 1000, 100
"""What MLflow's servers take in one call."""


class Mlflow:
    """See `Sink`."""

    def __init__(self, run: str, config: Mapping[str, Any]) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self._client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "agentmem")
        known = self._client.get_experiment_by_name(name)
        experiment = self._client.create_experiment(name) if known is None else known.experiment_id
        begun = self._client.search_runs([experiment], f"tags.`{TAG}` = '{run}'", max_results=1)
        if begun:
            self._id = begun[0].info.run_id
            self._client.update_run(self._id, status="RUNNING")
            return
        self._id = self._client.create_run(experiment, tags={TAG: run}, run_name=run).info.run_id
        params = (Param(key, str(value)) for key, value in _leaves(config, ""))
        while some := list(islice(params, PARAMS_A_CALL)):
            self._client.log_batch(self._id, params=some)

    def publish(self, step: int, scalars: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = (Metric(name, value, now, step) for name, value in scalars.items())
        while some := list(islice(metrics, METRICS_A_CALL)):
            self._client.log_batch(self._id, metrics=some)

    def close(self) -> None:
        self._client.set_terminated(self._id)


def _leaves(tree: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping) and tree:
        for key, below in tree.items():
            yield from _leaves(below, f"{prefix}.{key}".lstrip("."))
    else:
        yield prefix, tree


def open_sink(run: str, config: Mapping[str, Any], directory: Path) -> Mlflow:
    """Raises MLflow's errors (no server)."""
    return Mlflow(run, config)

"""Live runs that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos.cluster import Cluster

StartCluster = Callable[..., Cluster]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[StartCluster]:
    """Start a run with the settings of the chaos suite and these."""
    begun: list[Cluster] = []

    def start(*overrides: str) -> Cluster:
        cluster = Cluster(tmp_path / str(len(begun)), settings=overrides)
        begun.append(cluster)
        cluster.start()
        return cluster

    yield start
    for cluster in begun:
        cluster.close()

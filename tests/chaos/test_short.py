"""A few cells of the chaos matrix; `make chaos` runs all of them."""

from __future__ import annotations

import pytest

from tests.chaos.attack import attack
from tests.chaos.cells import Cell
from tests.chaos.conftest import StartCluster

pytestmark = pytest.mark.chaos

CELLS = (
    Cell("agent actor", "mid-commit", "SIGKILL"),
    Cell("Redis", "mid-turn", "SIGKILL"),
    Cell("learner rank", "mid-checkpoint", "SIGKILL"),
    Cell("engine", "mid-weight-update", "SIGSTOP"),
    Cell("env worker", "between episodes", "10x slow"),
)


def test_a_live_run_survives_what_is_done_to_its_parts(live: StartCluster) -> None:
    cluster = live()
    for cell in CELLS:
        attack(cluster, cell)

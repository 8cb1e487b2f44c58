"""What every test may rely on: one thread, no model hub, a cache of made things of its own.

The environment is set before anything heavy is imported, so that processes started by tests have it, too.
Test processes that run side by side (`pytest -n`) share the cache of the one that started them.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_STARTED_BY_ANOTHER = "PYTEST_XDIST_WORKER" in os.environ
_CACHE = (
    os.environ["AGENTMEM_CACHE"] if _STARTED_BY_ANOTHER else tempfile.mkdtemp(prefix="agentmem-test-cache-")
)
_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.update(
    HF_HUB_OFFLINE="1",
    RAY_AUTH_MODE="disabled",
    RAY_USAGE_STATS_ENABLED="0",
    TOKENIZERS_PARALLELISM="false",
    AGENTMEM_CACHE=_CACHE,
)
# A shell that starts tests in the background has them ignore Ctrl-C, and what they start would inherit that.
if not _STARTED_BY_ANOTHER and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if _DATA.is_dir():
    os.environ.setdefault("AGENTMEM_DATA", str(_DATA))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What stays together when test processes share the work: a file, and all tests of the learner group.

    DeepSpeed keeps process groups for the life of its process, and a vLLM that came and went between two
    files of them would leave it with groups that are gone.
    """
    for item in items:
        together = "learner_group" if "learner_group" in item.path.parts else str(item.path)
        item.add_marker(pytest.mark.xdist_group(together))


def pytest_unconfigure() -> None:
    """What was made goes with the session."""
    if not _STARTED_BY_ANOTHER:
        shutil.rmtree(_CACHE, ignore_errors=True)


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    """One local Ray for all tests that need one in their own process: a second can't be started beside it."""
    import ray

    ray.init(address="local", num_cpus=8, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    """The quickstart's tiny model (compact MineSweeper 4x4), hardly warmed up: right shape, poor play."""
    from agentmem.app.models.resolve import resolve_for
    from agentmem.config import load_config

    overrides = ["policies.agent.warmup.steps=30", "policies.agent.warmup.batch_rows=64"]
    return resolve_for(load_config("lamer-minesweeper", overrides))

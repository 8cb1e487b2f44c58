"""A real server for the whole session; each test has a run of its own on it."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentmem.replay import EmbeddedServer, ReplayBuffer

_runs = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as server:
        yield server


@pytest.fixture
def open_buffer(server: EmbeddedServer) -> Iterator[Callable[..., ReplayBuffer]]:
    """Opens buffers of this test's run, with the settings given."""
    run = f"run{next(_runs)}"
    opened: list[ReplayBuffer] = []

    def open_one(**settings: Any) -> ReplayBuffer:
        opened.append(ReplayBuffer(server.url, run, **settings))
        return opened[-1]

    yield open_one
    for buffer in opened:
        buffer.close()


@pytest.fixture
def buffer(open_buffer: Callable[..., ReplayBuffer]) -> ReplayBuffer:
    return open_buffer()

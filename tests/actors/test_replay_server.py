"""The keeper of the embedded replay server: death and freeze are mended at the same URL, within a budget."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.replay_server import ReplayServer
from agentmem.failures import BudgetError
from agentmem.replay import ReplayBuffer
from agentmem.replay.embedded import EmbeddedServer

MakeServer = Callable[..., ReplayServer]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeServer]:
    made: list[ReplayServer] = []

    def make_server(**options: object) -> ReplayServer:
        server = ReplayServer(str(tmp_path / "data"), **options)  # type: ignore[arg-type]
        made.append(server)
        return server

    yield make_server
    for server in made:
        server.stop()


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_dead_or_frozen_server_is_back_with_its_data_and_clients_only_wait(
    number: signal.Signals, make: MakeServer
) -> None:
    server = make(budget=1, ping_timeout_s=2.0)
    url, pid = server.url(), server.pid()
    with ReplayBuffer(url, "r", deadline_s=30.0) as buffer:
        buffer.set_cursor("tasks", 7)
        os.kill(pid, number)
        assert buffer.get_cursor("tasks") == "7"
    assert server.url() == url
    assert server.pid() != pid
    assert server.check() == 1


def test_a_spent_budget_is_told_with_its_cause(make: MakeServer) -> None:
    server = make(budget=0)
    os.kill(server.pid(), signal.SIGKILL)

    def told() -> bool:
        try:
            server.check()
        except BudgetError as error:
            return "0 restarts are spent" in str(error) and "it died" in str(error)
        return False

    until(told)


def test_another_owner_serves_the_same_data_at_the_same_url(tmp_path: Path, make: MakeServer) -> None:
    first = EmbeddedServer(tmp_path / "data")
    first.start()
    with ReplayBuffer(first.url, "r", deadline_s=30.0) as buffer:
        buffer.set_cursor("tasks", 7)
        second = make(url=first.url)  # the first one's process was killed: it does nothing more
        assert second.url() == first.url
        assert not first.alive
        assert buffer.get_cursor("tasks") == "7"

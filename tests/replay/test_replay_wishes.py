"""Wishes for a run's sizes and its reports cross the server."""

from __future__ import annotations

from collections.abc import Callable

from agentmem.replay import ReplayBuffer, Wishes

Opener = Callable[..., ReplayBuffer]


def test_a_wish_stands_until_it_is_replaced_or_taken_back(open_buffer: Opener) -> None:
    driver, elsewhere = open_buffer(), open_buffer()
    assert driver.wishes() == Wishes()
    assert elsewhere.wish({"agents": 3, "engines.agent": 2}) == 1
    assert driver.wishes() == Wishes(sequence=1, numbers={"agents": 3, "engines.agent": 2})
    assert elsewhere.wish({"agents": 5, "engines.agent": None}) == 2
    assert driver.wishes() == Wishes(sequence=2, numbers={"agents": 5})


def test_a_wish_outlives_a_driver_unless_the_next_one_is_configured_otherwise(open_buffer: Opener) -> None:
    driver = open_buffer()
    assert driver.configured({"agents": 1, "env-workers": 2}) == []
    driver.wish({"agents": 3, "env-workers": 6})
    assert open_buffer().configured({"agents": 1, "env-workers": 2}) == []
    assert driver.wishes().numbers == {"agents": 3, "env-workers": 6}
    assert open_buffer().configured({"agents": 1, "env-workers": 4}) == ["env-workers"]
    assert driver.wishes().numbers == {"agents": 3}


def test_what_a_driver_says_is_read_elsewhere_with_its_age(open_buffer: Opener) -> None:
    driver, elsewhere = open_buffer(), open_buffer()
    assert elsewhere.reported() is None
    driver.report(b"training")
    driver.report(b'{"phase": "evaluating"}')
    found = elsewhere.reported()
    assert found is not None
    assert found.said == b'{"phase": "evaluating"}'
    assert 0 <= found.age_s < 30


def test_a_full_server_takes_wishes_and_reports(open_buffer: Opener) -> None:
    buffer: ReplayBuffer = open_buffer()
    before = buffer.server.client.config_get("maxmemory")["maxmemory"]
    buffer.server.client.config_set("maxmemory", "1")
    try:
        buffer.wish({"agents": 2})
        buffer.report(b"full")
    finally:
        buffer.server.client.config_set("maxmemory", before)
    assert buffer.wishes().numbers == {"agents": 2}

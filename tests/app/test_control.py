"""`agentmem scale` and `agentmem status` against a real server, with a driver that says what a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import msgspec
import pytest

from agentmem.app.control.reading import Reading, StoppedError, read
from agentmem.app.control.scale import parse, scale
from agentmem.app.control.status import alarms, as_json, as_text, firing
from agentmem.app.reporting.run_buffer import open_buffer
from agentmem.app.reporting.status import KindStatus, RunStatus, encoded
from agentmem.failures import ConfigError, ReplayError, ResourceError, StalledError
from agentmem.replay import Counters, EmbeddedServer, ReplayBuffer

WELL = RunStatus(
    run="r-1",
    host="node-a",
    pid=7,
    phase="training",
    update=3,
    updates=10,
    since_update_s=4.0,
    version=3,
    served=3,
    p_at_k=[0.25, 0.5],
    staleness_mean=0.5,
    staleness_max=1,
    learner_idle=0.4,
    rollout_idle=0.1,
    kinds={"agents": KindStatus(running=1, desired=1), "engines.agent": KindStatus(running=1, desired=1)},
    slots={"busy": 4, "free": 12, "waiting": 0},
    byte_budget=100 << 20,
    restart_budget=5,
)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tcp_host="127.0.0.1") as it:
        yield it


@pytest.fixture
def buffer(server: EmbeddedServer) -> Iterator[ReplayBuffer]:
    with ReplayBuffer(server.url, "r-1") as it:
        it.server.client.flushall()
    with ReplayBuffer(server.url, "r-1") as it:
        yield it


def say(buffer: ReplayBuffer, status: RunStatus = WELL, **changes: object) -> None:
    buffer.report(encoded(msgspec.structs.replace(status, **changes)))


def kind(**values: object) -> dict[str, KindStatus]:
    return {**WELL.kinds, "agents": KindStatus(**values)}  # type: ignore[arg-type]


def test_numbers_are_read_from_words() -> None:
    assert parse(["agents=8", "memory=2", "engines.agent=auto"]) == {
        "agents": 8,
        "generators": 2,
        "engines.agent": None,
    }


@pytest.mark.parametrize("word", ["agents", "=3", "agents=", "agents=-1", "agents=1.5", "agents=1000000"])
def test_words_that_are_no_numbers_are_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=r"kind=number|a number from 1 to"):
        parse([word])
    with pytest.raises(ConfigError, match="named twice"):
        parse(["agents=1", "agents=2"])


def test_a_wish_is_followed_until_the_driver_has_reached_it(buffer: ReplayBuffer) -> None:
    say(buffer)
    told: list[str] = []
    answers = [
        {"sequence": 1, "kinds": kind(running=1, desired=1, changing=True, note="1 -> 3: under way")},
        {"sequence": 1, "kinds": kind(running=2, desired=3, changing=True)},
        {"sequence": 1, "kinds": kind(running=3, desired=3)},
    ]
    scale(
        buffer, {"agents": 3}, wait=True, timeout_s=30, say=told.append,
        pause=lambda _: say(buffer, **answers.pop(0)),
    )  # fmt: skip
    assert told == [
        "agents: 1 running, 1 desired before; wished for: 3",
        "agents 1/1; agents: 1 -> 3: under way",
        "agents 2/3",
        "agents 3/3",
        "reached",
    ]
    assert buffer.wishes().numbers == {"agents": 3}


def test_who_leaves_is_waited_for(buffer: ReplayBuffer) -> None:
    say(buffer, kinds=kind(running=3, desired=3))
    told: list[str] = []
    answers = [
        {"sequence": 1, "kinds": kind(running=1, desired=1, leaving=2)},
        {"sequence": 1, "kinds": kind(running=1, desired=1)},
    ]
    scale(
        buffer, {"agents": 1}, wait=True, timeout_s=30, say=told.append,
        pause=lambda _: say(buffer, **answers.pop(0)),
    )  # fmt: skip
    assert told[1:] == ["agents 1/1 (2 leaving)", "agents 1/1", "reached"]


def test_what_cannot_be_had_is_an_error_that_says_why(buffer: ReplayBuffer) -> None:
    say(buffer)
    refused = kind(running=1, desired=1, refused=True, note="1 -> 90: not enough resources: 90 CPU")
    with pytest.raises(ResourceError, match="agents: 1 -> 90: not enough resources: 90 CPU"):
        scale(
            buffer, {"agents": 90}, wait=True, timeout_s=30, say=lambda _: None,
            pause=lambda _: say(buffer, sequence=1, kinds=refused),
        )  # fmt: skip


def test_a_wish_that_is_not_reached_in_time_stands(buffer: ReplayBuffer) -> None:
    say(buffer)
    with pytest.raises(StalledError, match=r"not reached within 0\.01 s, the wish stands"):
        scale(buffer, {"agents": 2}, wait=True, timeout_s=0.01, say=lambda _: None)
    scale(buffer, {"agents": 4}, wait=False, timeout_s=1, say=lambda _: None)
    assert buffer.wishes().numbers == {"agents": 4}


def test_a_run_that_does_not_go_on_is_asked_for_nothing(buffer: ReplayBuffer) -> None:
    with pytest.raises(StoppedError, match="no driver has said anything"):
        read(buffer)
    say(buffer, ended="finished")
    with pytest.raises(StoppedError, match="doesn't go on: finished, 0 s ago"):
        scale(buffer, {"agents": 2}, wait=True, timeout_s=1, say=lambda _: None)
    assert buffer.wishes().numbers == {}
    say(buffer, kinds={}, phase="starting engines")
    with pytest.raises(StoppedError, match=r"still starting \(starting engines\)"):
        scale(buffer, {"agents": 2}, wait=True, timeout_s=1, say=lambda _: None)


def test_a_run_is_found_by_name_and_server_where_its_directory_is_not(
    server: EmbeddedServer, buffer: ReplayBuffer, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    say(buffer)
    monkeypatch.setenv("AGENTMEM_RUNS", str(tmp_path))
    password = server.tcp_url.split(":")[2].split("@")[0]
    monkeypatch.setenv("AGENTMEM_REDIS_PASSWORD", password)
    shown = server.tcp_url.replace(f":{password}@", "***@")
    with open_buffer("r-1", shown) as found:
        assert read(found).status.phase == "training"
    with (
        pytest.raises(ReplayError, match=r"holds no buffer of run r-9; it holds r-1") as told,
        open_buffer("r-9", shown),
    ):
        raise AssertionError("it was found")
    assert password not in str(told.value)


def test_a_screen_says_how_a_run_stands() -> None:
    counters = Counters(submitted=10, queued=3, running=4, buffered=1, trained=2)
    text = as_text(Reading(WELL, 0.5, counters))
    for part in (
        "run            r-1, process 7 on node-a",
        "updates        3 of 10, the last 4 s ago; version 3, served 3",
        "solved         p@1 0.25  p@2 0.50",
        "submitted 10 = queued 3 + running 4 + buffered 1 + trained 2",
        "the identity holds",
        "agents         1 of 1",
        "alarms         none",
    ):
        assert part in text
    tree = json.loads(as_json(Reading(WELL, 0.5, counters), []))
    assert tree["identity_holds"] is True
    assert tree["tickets"]["queued"] == 3


def test_a_silent_driver_is_one_line() -> None:
    text = as_text(Reading(WELL, 300.0, Counters()))
    assert text == (
        "run r-1 doesn't go on: its driver (process 7 on node-a) has said nothing for 5 min; update 3 of 10"
    )


@pytest.mark.parametrize(
    ("changes", "counters", "said"),
    [
        ({}, Counters(submitted=3), "the accounting is broken"),
        ({"since_update_s": 4000.0}, Counters(), "the last update was 67 min ago"),
        ({"version": 30}, Counters(), "serves version 3, the learner is at 30"),
        ({"kinds": kind(running=0, desired=2)}, Counters(), "agents: none runs, 2 desired"),
        ({"kinds": kind(desired=1, refused=True, note="no room")}, Counters(), "agents: no room"),
        ({"restarts": {"agent": 5}}, Counters(), "agent: 5 restarts, the budget is spent"),
        ({}, Counters(bytes=95 << 20), "the replay buffer is 95% full"),
        ({}, Counters(dead_letters=2), "2 tickets failed for good"),
        ({"learner_idle": 0.93}, Counters(), "the learner is idle 93%"),
    ],
)
def test_each_alarm_has_its_reason(changes: dict[str, object], counters: Counters, said: str) -> None:
    assert alarms(Reading(WELL, 0.0, Counters())) == []
    (line,) = alarms(Reading(msgspec.structs.replace(WELL, **changes), 0.0, counters))
    assert said in line


def test_a_long_evaluation_is_no_alarm() -> None:
    status = msgspec.structs.replace(WELL, since_update_s=4000.0, evaluating=True)
    assert alarms(Reading(status, 0.0, Counters())) == []


def test_alerts_of_a_prometheus_are_told_for_this_run_alone() -> None:
    def alert(name: str, run: str, state: str) -> dict[str, object]:
        labels = {"alertname": name, "run": run}
        return {"labels": labels, "annotations": {"summary": f"{run} is ill"}, "state": state}

    found = [alert("A", "r-1", "firing"), alert("B", "r-2", "firing"), alert("C", "r-1", "pending")]

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"data": {"alerts": found}}).encode()
            self.send_response(200 if self.path == "/api/v1/alerts" else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    web = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    try:
        assert firing(f"http://127.0.0.1:{web.server_port}/", "r-1") == ["A: r-1 is ill"]
    finally:
        web.shutdown()
        web.server_close()
    with pytest.raises(ConfigError, match="can't be asked for alerts"):
        firing(f"http://127.0.0.1:{web.server_port}", "r-1")

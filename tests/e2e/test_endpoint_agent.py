"""Mem-π with a frozen agent behind an OpenAI-compatible endpoint, which fails while the run goes on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from agentmem.evaluation.lines import read_lines
from envs.doors.house import rule_of
from envs.doors.options import Options
from tests.e2e.runs import Run, plain
from tests.standins.serving import Response
from tests.standins.writer import WriterEndpoint, completion, question, trouble

DOORS = Options(kinds=8, rooms=3, doors=4, rule=2, format="text")
KEY = "k-93hf72ksn02kdj4"
SMALL = (
    "env.options={kinds: 8, rooms: 3, doors: 4, rule: 2, format: text}",
    "policies.memory={model: tiny, context_length: 1024, warmup: {steps: 20, batch_rows: 8}}",
    "engines.memory.backend=torch",
    "engines.memory.max_num_seqs=16",
    "advice={group: 3, runs_abstain: 2, max_tokens: 6, timeout_s: 120.0}",
    "rollout.group_size=4",
    "rollout.tasks_per_update=2",
    "rollout.sampling.max_tokens=16",
    "evaluation.sampling.max_tokens=16",
    "evaluation.tasks=4",
    "agents.trials_in_flight=8",
    "learner.updates=3",
)


def agent(server: WriterEndpoint, **more: Any) -> str:
    """The setting that names the endpoint."""
    settings = {"url": server.base_url, "key_env": "OPENAI_API_KEY", **more}
    given = ", ".join(f"{key}: {value}" for key, value in settings.items())
    return f"policies.agent={{model: frozen, trained: false, context_length: 4096, endpoint: {{{given}}}}}"


def walks(body: dict[str, Any]) -> Response:
    """Somebody who knows the house, but trusts no hint: with one in the prompt, the first door is wrong."""
    rule = rule_of(DOORS.rule, DOORS.kind_words, DOORS.door_words)
    room = re.findall(r"You are in the (\w+)\.", question(body))[-1]
    right = rule[room]
    wrong = next(door for door in DOORS.door_words if door != right)
    door = wrong if "Hint: " in str(body["messages"]) else right
    return completion(f"<action>{door}</action>")


def dies(body: dict[str, Any]) -> Response:
    """The connection ends without an answer."""
    raise ConnectionAbortedError("the server is going down")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def test_an_endpoint_that_fails_in_mid_run_costs_time_and_no_trial(start: Callable[..., Run]) -> None:
    with WriterEndpoint(KEY) as server:
        server.instead = walks
        run = start("mempi-doors", *SMALL, agent(server, attempts=20, patience_s=300.0))
        run.until_update(1)
        failing = [trouble(429, "slower", Retry_After="1"), trouble(503), trouble(500)] * 3
        server.troubles = list(failing)
        assert run.end() == 0, run.output()
        assert server.troubles == []
        asked, answered = len(server.asked), len(server.answered)
    assert KEY not in run.output()
    updates = run.records("update")
    assert [record["trials"] for record in updates] == [8, 8, 8]
    assert len({group for record in updates for group in record["groups"]}) == 6
    assert asked > answered == 0  # it is `walks` who answers
    for condition in ("with_memory", "without_memory"):
        lines = [line for line in read_lines(run.path / "trials.jsonl") if line.condition == condition]
        assert len(lines) == 8  # four houses, before and after
        if condition == "without_memory":
            assert all(line.within(1) for line in lines)


def test_an_endpoint_that_is_away_is_waited_for_and_asked_again_when_it_is_back(
    start: Callable[..., Run],
) -> None:
    server = WriterEndpoint(KEY)
    port = int(server.url.rsplit(":", 1)[1])
    try:
        server.instead = walks
        run = start("mempi-doors", *SMALL, agent(server, attempts=30, patience_s=300.0))
        run.until_update(1)
        before = len(server.asked)
        server.instead = dies
        server.close()
        run.until(lambda: len(server.asked) > before)  # on a connection that was still open
        server = WriterEndpoint(KEY, port)
        server.instead = walks
        assert run.end() == 0, run.output()
        assert server.asked
    finally:
        server.close()
    assert [record["trials"] for record in run.records("update")] == [8, 8, 8]


def test_an_endpoint_that_stays_down_ends_the_run_with_its_name(start: Callable[..., Run]) -> None:
    with WriterEndpoint(KEY) as server:
        server.instead = walks
        run = start(
            "mempi-doors",
            *SMALL,
            agent(server, attempts=1),
            "evaluation.tasks=0",
            "learner.updates=50",
            "replay.max_attempts=1",
        )
        run.until_update(1)
        server.instead = lambda body: trouble(503, "closed for good")
        assert run.end() != 0
    told = plain(run.output())
    assert f"endpoint {server.base_url}, model frozen gave no answer in 1 attempt" in told
    assert "closed for good" in told
    assert "Go on with: agentmem run mempi-doors --resume" in told
    assert "Traceback" not in told

"""`agentmem advise serve` as its users meet it: a process, its port, and what it answers."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.advice.conftest import SMALL
from tests.advice.serving import Service, start

TOKEN = "a-token-of-some-length"
WALK = {"query": "walk", "observation": "hall"}


def series(service: Service) -> dict[str, float]:
    status, text = service.fetch("/metrics")
    assert status == 200
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def total(service: Service, metric: str, label: str = "") -> float:
    """Of all series of a metric that have a label."""
    return sum(v for name, v in series(service).items() if name.startswith(metric + "{") and label in name)


def test_an_answer_says_decision_hint_and_what_they_took(service: Service) -> None:
    status, said = service.ask({**WALK, "threshold": -1e9})
    assert status == 200
    assert said["decision"] == "generate"
    assert set(said) == {"decision", "text", "p_generate", "tokens", "latency_s", "version", "late"}
    assert 0 < said["p_generate"] < 1
    assert said["latency_s"] > 0
    assert (said["version"], said["late"]) == (0, False)


def test_the_threshold_of_a_call_makes_its_decision(service: Service) -> None:
    (_, low), (_, high) = (service.ask({**WALK, "threshold": t}) for t in (-1e9, 1e9))
    assert (low["decision"], high["decision"]) == ("generate", "abstain")
    assert (high["text"], high["tokens"]) == ("", 0)
    assert high["p_generate"] == pytest.approx(low["p_generate"], abs=1e-4)


def test_a_hint_is_no_longer_than_its_call_allows(service: Service) -> None:
    answers = [service.ask({**WALK, "threshold": -1e9, "max_tokens": 1})[1] for _ in range(8)]
    assert all(answer["tokens"] <= 1 for answer in answers)


def test_many_questions_at_once_are_all_answered(service: Service) -> None:
    rooms = ["hall", "attic", "cellar"]
    questions = [{"query": "walk", "observation": rooms[i % 3], "threshold": -1e9} for i in range(48)]
    before = total(service, "agentmem_advice_total", "generate")
    with ThreadPoolExecutor(24) as threads:
        answers = list(threads.map(service.ask, questions))
    assert {status for status, _ in answers} == {200}
    # A question's probability doesn't depend on what it was batched with.
    by_room = {room: {round(a["p_generate"], 3) for _, a in answers[i::3]} for i, room in enumerate(rooms)}
    assert all(len(found) == 1 for found in by_room.values())
    assert total(service, "agentmem_advice_total", "generate") == before + 48


def test_an_answer_that_is_late_abstains_and_says_so(service: Service) -> None:
    before = total(service, "agentmem_advice_total", "late")
    status, said = service.ask({**WALK, "threshold": -1e9, "timeout_s": 1e-6})
    assert status == 200
    assert (said["decision"], said["text"], said["late"], said["p_generate"]) == ("abstain", "", True, None)
    assert total(service, "agentmem_advice_total", "late") == before + 1


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (b"{", 400, "the body is no JSON"),
        ({"observation": "hall"}, 422, "query is missing"),
        ({"query": ""}, 422, 'query is "": String should have at least 1 character'),
        ({"query": 3}, 422, "query is 3: Input should be a valid string"),
        ({**WALK, "tau": 1}, 422, "tau: no such field; there are query, observation, domain,"),
        ({**WALK, "threshold": "much"}, 422, 'threshold is "much": Input should be a valid number'),
        (b'{"query": "q", "threshold": NaN}', 422, "threshold is NaN: Input should be a finite number"),
        ({**WALK, "max_tokens": 5}, 422, "max_tokens is 5: must be 1 to 4"),
        ({**WALK, "max_tokens": 0}, 422, "max_tokens is 0: Input should be greater than or equal to 1"),
        ({**WALK, "timeout_s": 0}, 422, "timeout_s is 0: Input should be greater than 0"),
        ([], 422, "the body"),
    ],
)
def test_a_question_that_cannot_be_is_one_line(service: Service, body: Any, status: int, why: str) -> None:
    found, said = service.ask(body)
    assert found == status
    assert list(said) == ["error"]
    assert said["error"].startswith(why)
    assert "\n" not in said["error"]


def test_a_body_is_no_longer_than_the_limit(service: Service) -> None:
    status, said = service.ask({"query": "q" * 5000})
    assert (status, said) == (413, {"error": "the body has more than 4096 bytes"})


def test_other_places_are_one_line_too(service: Service) -> None:
    assert service.send("/v2/advise") == (404, {"error": "GET /v2/advise: Not Found"})
    assert service.send("/v1/advise") == (405, {"error": "GET /v1/advise: Method Not Allowed"})


def test_health_and_metrics_are_served(service: Service) -> None:
    assert service.send("/healthz") == (200, {"status": "ok", "version": 0})
    service.ask(WALK)
    found = series(service)
    run = 'run="memory"'
    assert found[f"agentmem_advice_in_flight_requests{{{run}}}"] == 0
    assert found[f"agentmem_advice_duration_seconds_count{{{run}}}"] >= 1
    assert found[f'agentmem_advice_requests_total{{reason="200",{run}}}'] >= 1
    assert total(service, "agentmem_advice_choices_total") >= 1


def refused(*arguments: str, token: str = "") -> str:
    """The line of a service that doesn't start."""
    started = start(*arguments, token=token)
    try:
        output, _ = started.process.communicate(timeout=120)
    finally:
        started.end()
    assert started.process.returncode == 2, output
    assert "Traceback" not in output
    (line,) = [line for line in output.splitlines() if line.startswith("error: ")]
    return line


def test_a_port_that_is_taken_is_one_line_before_the_model_is_loaded(model: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused(model, *SMALL, "--port", str(port))
    assert line == f"error: --port {port}: can't listen on 127.0.0.1: Address already in use"


def test_other_machines_need_a_token(model: str) -> None:
    line = refused(model, *SMALL, "--host", "0.0.0.0", "--port", "0")
    assert "--host 0.0.0.0" in line
    assert "set AGENTMEM_ADVICE_TOKEN" in line
    assert "has 5 characters: at least 16" in refused(model, *SMALL, "--port", "0", token="short")
    assert "short" not in line


def test_what_is_no_memory_policy_is_one_line(model: str) -> None:
    assert "--recipe names the recipe" in refused(model)
    assert "trains no memory policy" in refused("lamer-minesweeper")
    assert "goes with a model's directory" in refused("mempi-doors", "--recipe", "mempi-doors")


def test_with_a_token_nothing_but_health_is_answered_without_it(model: str) -> None:
    started = start(model, *SMALL, "--port", "0", "--host", "0.0.0.0", token=TOKEN)
    try:
        started.read()
        started.url = started.url.replace("0.0.0.0", "127.0.0.1")
        assert TOKEN not in "".join(started.said)
        wrong = ["", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}"]
        for given in wrong:
            status, said = started.ask(WALK, **({"Authorization": given} if given else {}))
            assert (status, list(said)) == (401, ["error"]), given
        for path in ("/metrics", "/openapi.json", "/nowhere"):
            assert started.send(path)[0] == 401
        assert started.send("/healthz")[0] == 200
        assert started.ask(WALK, Authorization=f"Bearer {TOKEN}")[0] == 200
        assert started.fetch("/metrics", Authorization=f"Bearer {TOKEN}")[0] == 200
    finally:
        started.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_answers_what_is_under_way_and_leaves(model: str, number: signal.Signals) -> None:
    started = start(model, *SMALL, "--port", "0")
    try:
        started.read()
        with ThreadPoolExecutor(16) as threads:
            asked = [threads.submit(started.ask, {**WALK, "threshold": -1e9}) for _ in range(16)]
            asked[0].result()
            started.process.send_signal(number)
            answered = 0
            for one in asked:
                try:
                    status, _ = one.result()
                except OSError:  # it came when nobody listened any more
                    continue
                assert status == 200
                answered += 1
        assert answered >= 1
        rest = started.process.stdout.read() if started.process.stdout else ""
        assert started.process.wait(60) == 0, rest
        assert "Traceback" not in rest
    finally:
        started.end()


def test_one_question_without_a_service(model: str) -> None:
    words = [model, *SMALL, "--query", "walk", "--observation", "-", "--threshold", "-1000000000"]
    done = subprocess.run(
        [sys.executable, "-m", "agentmem", "advise", "ask", *words],
        input="hall",
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('{"decision":"generate"')

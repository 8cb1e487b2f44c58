"""The client of an OpenAI-compatible endpoint, against a real server that fails on command."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.chat.answer import Answer
from agentmem.config.endpoint import EndpointConfig
from agentmem.config.load import checked
from agentmem.endpoint import PIECE, Endpoint, without
from agentmem.failures import ConfigError, EndpointError, EndpointRefusal, FailureKind
from agentmem.sampling import FinishReason
from tests.standins.serving import Response, as_json
from tests.standins.writer import WriterEndpoint, completion, trouble

KEY = "sk-correct-horse-battery-staple"
ASK = (("system", "Be short."), ("user", "Where is the key?"))


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.time = 100.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


@pytest.fixture
def server() -> Iterator[WriterEndpoint]:
    with WriterEndpoint(KEY) as server:
        yield server


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRITER_KEY", KEY)


def settings(server: WriterEndpoint, **more: Any) -> EndpointConfig:
    return EndpointConfig(url=server.base_url, **({"key_env": "WRITER_KEY"} | more))


async def ask(endpoint: Endpoint) -> Answer:
    return await endpoint.answer(ASK, max_tokens=50, temperature=0.5)


def asking(
    config: EndpointConfig, clock: Clock | None = None, do: Callable[[Endpoint], Awaitable[Any]] = ask
) -> Any:
    async def run() -> Any:
        async with Endpoint(config, "small", clock=clock or Clock()) as endpoint:
            return await do(endpoint)

    return asyncio.run(run())


def test_a_question_is_asked_in_the_protocol_and_answered_with_its_tokens(server: WriterEndpoint) -> None:
    server.instead = lambda body: completion("Under the mat.", "length", prompt_tokens=9, completion_tokens=4)
    answer = asking(settings(server, extra={"max_tokens": None, "max_completion_tokens": 70, "seed": 3}))
    assert answer == Answer(
        text="Under the mat.", finish_reason=FinishReason.LENGTH, prompt_tokens=9, completion_tokens=4
    )
    assert server.asked == [
        {
            "model": "small",
            "messages": [{"role": role, "content": content} for role, content in ASK],
            "temperature": 0.5,
            "max_completion_tokens": 70,
            "seed": 3,
        }
    ]


def test_tokens_that_the_server_does_not_tell_are_unknown(server: WriterEndpoint) -> None:
    server.instead = lambda body: as_json({"choices": [{"message": {"content": None}}]})
    assert asking(settings(server)) == Answer(text="")


def test_half_a_character_at_the_end_of_an_answer_is_replaced(server: WriterEndpoint) -> None:
    server.instead = lambda body: Response(b'{"choices": [{"message": {"content": "Go. \\ud83d"}}]}')
    assert asking(settings(server)).text == "Go. ?"


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_what_may_go_well_later_is_tried_again_with_growing_pauses(
    server: WriterEndpoint, status: int
) -> None:
    server.troubles = [trouble(status)] * 4
    clock = Clock()
    answer = asking(settings(server), clock)
    assert "Look around" in answer.text
    assert len(server.asked) == 5
    assert [0.5 * 2**n <= slept <= 2**n for n, slept in enumerate(clock.slept)] == [True] * 4


def test_a_failure_that_comes_as_a_success_is_one(server: WriterEndpoint) -> None:
    server.troubles = [as_json({"error": {"code": 429, "message": "slowly"}}) for _ in range(2)]
    clock = Clock()
    assert "Look around" in asking(settings(server), clock).text
    assert len(clock.slept) == 2


def test_the_pause_that_a_server_asks_for_holds_all_requests(server: WriterEndpoint) -> None:
    server.troubles = [trouble(429, Retry_After="33")]
    clock = Clock()
    starts: list[float] = []

    def note(body: dict[str, Any]) -> None:
        starts.append(clock.time)

    server.instead = note

    async def first_then_two(endpoint: Endpoint) -> None:
        first = asyncio.create_task(ask(endpoint))
        while not server.asked or not clock.slept:
            await asyncio.sleep(0.001)
        await asyncio.gather(first, ask(endpoint), ask(endpoint))

    asking(settings(server), clock, first_then_two)
    assert len(starts) == 3
    assert min(starts) >= 133.0


def test_an_endpoint_that_stays_down_is_given_up_with_what_it_said(server: WriterEndpoint) -> None:
    server.instead = lambda body: trouble(503, "the model is being loaded")
    with pytest.raises(
        EndpointError, match=r"no answer in 3 attempts: status 503: the model is being loaded"
    ) as caught:
        asking(settings(server, attempts=3))
    assert caught.value.kind is FailureKind.INFRASTRUCTURE
    assert caught.value.exit_code == 4
    assert len(server.asked) == 3


def test_a_pause_beyond_the_patience_is_not_waited_for(server: WriterEndpoint) -> None:
    server.troubles = [trouble(429, "come back tomorrow", Retry_After="86400")]
    clock = Clock()
    with pytest.raises(EndpointError, match=r"in 1 attempt: status 429: come back tomorrow"):
        asking(settings(server, patience_s=600.0), clock)
    assert clock.slept == []


def test_nobody_at_the_address_is_said(server: WriterEndpoint) -> None:
    config = settings(server, attempts=2)
    server.close()
    with pytest.raises(EndpointError, match=r"in 2 attempts: ConnectError"):
        asking(config)


def test_an_answer_that_does_not_come_in_time_counts_as_none(server: WriterEndpoint) -> None:
    end = threading.Event()

    def hang(body: dict[str, Any]) -> None:
        end.wait(30)

    server.instead = hang
    try:
        with pytest.raises(EndpointError, match=r"no whole answer within 0\.2 s"):
            asking(settings(server, timeout_s=0.2, attempts=1))
    finally:
        end.set()


def test_no_more_requests_are_under_way_than_allowed(server: WriterEndpoint) -> None:
    together = threading.Barrier(3, timeout=10)

    def meet(body: dict[str, Any]) -> None:
        together.wait()  # three are there at once, or this breaks

    server.instead = meet

    async def nine(endpoint: Endpoint) -> None:
        await asyncio.gather(*(ask(endpoint) for _ in range(9)))

    asking(settings(server, concurrency=3), None, nine)
    assert server.most_at_once == 3


def test_requests_keep_to_their_pace(server: WriterEndpoint) -> None:
    clock = Clock()

    async def four(endpoint: Endpoint) -> None:
        for _ in range(4):
            await ask(endpoint)

    asking(settings(server, requests_per_minute=20.0), clock, four)
    assert clock.time == pytest.approx(109.0)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_the_server_will_not_take_is_its_own_trouble(
    server: WriterEndpoint, status: int
) -> None:
    server.troubles = [trouble(status, "the prompt is too long")]
    with pytest.raises(EndpointRefusal, match=f"status {status}: the prompt is too long"):
        asking(settings(server))
    assert len(server.asked) == 1


def test_a_wrong_place_says_what_the_url_must_be(server: WriterEndpoint) -> None:
    config = EndpointConfig(url=server.url, key_env="WRITER_KEY")
    with pytest.raises(ConfigError, match=r"status 404: no such place; endpoint\.url is what comes before"):
        asking(config)


@pytest.mark.parametrize("body", [b"<html>welcome</html>", b"[]", b'{"choices": []}', b'{"choices": [{}]}'])
def test_an_answer_of_another_protocol_is_said(server: WriterEndpoint, body: bytes) -> None:
    server.instead = lambda _: Response(body)
    with pytest.raises(ConfigError, match="no chat completion"):
        asking(settings(server))


def test_the_key_is_nowhere_to_be_read(
    server: WriterEndpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    config = settings(server, attempts=2)
    shown = [repr(config), config.model_dump_json()]

    async def look(endpoint: Endpoint) -> None:
        shown.extend([repr(endpoint), str(endpoint)])
        await ask(endpoint)

    server.troubles = [trouble(503, f"busy with {KEY}")]
    asking(config, None, look)
    server.troubles = [trouble(400, f"bad request of {KEY[:15]}, {KEY[5:]}")]
    with pytest.raises(EndpointRefusal) as refused:
        asking(config)
    shown.append(str(refused.value))
    monkeypatch.setenv("WRITER_KEY", KEY + "-stale")
    with pytest.raises(ConfigError, match=r"refuses the key in WRITER_KEY \(status 401\)") as wrong:
        asking(config)
    shown += [str(wrong.value), caplog.text]
    assert "busy with" in caplog.text
    for text in shown:
        assert not any(KEY[i : i + PIECE] in text for i in range(len(KEY) - PIECE + 1)), text


def test_a_key_that_is_missing_or_cannot_be_sent_is_said(
    server: WriterEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRITER_KEY", "two\nlines")
    with pytest.raises(ConfigError, match="the key in WRITER_KEY holds characters"):
        asking(settings(server))
    monkeypatch.delenv("WRITER_KEY")
    with pytest.raises(ConfigError, match=r"no WRITER_KEY, which endpoint\.key_env names"):
        asking(settings(server))


def test_an_endpoint_without_a_key_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with WriterEndpoint() as server:
        assert asking(settings(server, key_env=None)).text


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://me:secret@host/v1", "url of host holds a user or password"),
        ("host/v1", "url is 'host/v1'"),
        ("ftp://host/v1", "an address such as"),
        ("https://host/v1?key=1", "an address such as"),
    ],
)
def test_a_url_that_cannot_be_one_is_refused_without_its_secrets(url: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        checked({"url": url}, EndpointConfig)
    assert "secret" not in str(caught.value)


def test_a_prompt_is_measured_by_a_cautious_guess(server: WriterEndpoint) -> None:
    async def measure() -> tuple[bool, bool, bool]:
        async with Endpoint(settings(server), "small", context_length=100) as endpoint:
            text, signs = "x" * 150, "記" * 50
            return (
                endpoint.fits((("user", text),), 42),
                endpoint.fits((("user", text),), 43),
                endpoint.fits((("user", signs),), 43),
            )

    assert asyncio.run(measure()) == (True, False, False)


@given(st.text("abc", min_size=PIECE, max_size=30), st.text("abc ", max_size=60))
def test_no_piece_of_a_secret_is_left_in_a_text(secret: str, text: str) -> None:
    shown = without(text, secret)
    assert len(shown) == len(text)
    assert not any(secret[i : i + PIECE] in shown for i in range(len(secret) - PIECE + 1))
    assert without(text, "") == text

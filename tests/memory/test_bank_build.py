"""Building a bank with a real endpoint: what is written, what goes wrong, and going on after anything."""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentmem.config.endpoint import EndpointConfig
from agentmem.endpoint import Endpoint
from agentmem.failures import ConfigError, EndpointError
from agentmem.memory.bank.builder import Asking, Builder, Tally
from agentmem.memory.bank.files import answers_path, open_bank
from agentmem.memory.bank.grouping import by_task, plan
from agentmem.memory.bank.records import read_bank
from agentmem.memory.bank.traces import Trace
from tests.memory.banks import house, lost, traces, trial, won
from tests.standins.serving import Response
from tests.standins.writer import WriterEndpoint, completion, is_zoom, question, trouble

patient = settings(
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def shared() -> Iterator[WriterEndpoint]:
    """One server for many builds."""
    with WriterEndpoint() as server:
        yield server


@pytest.fixture
def server(shared: WriterEndpoint) -> WriterEndpoint:
    shared.instead = lambda body: None
    shared.troubles, shared.asked, shared.answered = [], [], []
    return shared


async def _build(
    server: WriterEndpoint,
    bank: Path,
    played: list[Trace],
    asking: Asking = Asking(),
    progress: Callable[[Tally], None] | None = None,
    context_length: int | None = None,
    **endpoint: Any,
) -> Tally:
    config = EndpointConfig(url=server.base_url, key_env=None, **{"attempts": 1, "concurrency": 2} | endpoint)
    jobs = plan(by_task(played))
    async with Endpoint(config, "small", context_length=context_length) as writer:
        with open_bank(bank) as files:
            builder = Builder(files, writer, asking, progress)
            try:
                return await builder.build(jobs)
            finally:
                assert builder.tally.done <= len(jobs)


def build(server: WriterEndpoint, bank: Path, played: list[Trace], *more: Any, **endpoint: Any) -> Tally:
    return asyncio.run(_build(server, bank, played, *more, **endpoint))


def test_a_bank_holds_a_hint_for_each_task_with_where_it_comes_from(
    server: WriterEndpoint, tmp_path: Path
) -> None:
    bank = tmp_path / "bank.jsonl"
    tally = build(server, bank, house(5))
    assert (tally.jobs, tally.written, tally.asked, tally.unzoomed, tally.cut) == (5, 5, 10, 0, 0)
    assert (tally.prompt_tokens, tally.completion_tokens) == (1000, 200)
    records = read_bank(bank)
    assert [r.task_id for r in records] == [f"house/{n}" for n in range(5)]
    pair = records[2]
    assert (pair.domain, pair.seed, pair.split, pair.q, pair.o) == (
        "house",
        2,
        "train",
        "Leave house 2.",
        "the hall",
    )
    assert (pair.sources, pair.successes, pair.failures) == (("t2:1", "t2:0"), 1, 1)
    assert (pair.writer, pair.prompt_version) == ("small", "1")
    assert (pair.tokens.prompt, pair.tokens.completion) == (200, 40)
    assert pair.m.startswith("Look around first. Then remember ")
    assert len({r.m for r in records}) == 5
    zoomed = [question(body) for body in server.answered if not is_zoom(body)]
    assert all("The steps that decided it:\nrecord 1, step 1" in asked for asked in zoomed)
    assert {body["max_tokens"] for body in server.asked} == {256, 512}


def test_without_the_zoom_pass_one_question_is_asked(server: WriterEndpoint, tmp_path: Path) -> None:
    tally = build(server, tmp_path / "bank.jsonl", house(3), Asking(zoom=False))
    assert (tally.written, tally.asked, tally.unzoomed) == (3, 3, 0)
    assert not any(is_zoom(body) for body in server.asked)


def test_building_again_asks_nothing_and_changes_nothing(server: WriterEndpoint, tmp_path: Path) -> None:
    bank = tmp_path / "bank.jsonl"
    build(server, bank, house(4))
    before = bank.read_bytes()
    tally = build(server, bank, house(4))
    assert (tally.present, tally.written, tally.asked, tally.remembered) == (4, 0, 0, 0)
    assert bank.read_bytes() == before
    grown = build(server, bank, house(6))
    assert (grown.present, grown.written, grown.asked) == (4, 2, 4)
    assert bank.read_bytes().startswith(before)


def test_a_lost_bank_is_written_again_from_the_answers(server: WriterEndpoint, tmp_path: Path) -> None:
    bank = tmp_path / "bank.jsonl"
    build(server, bank, house(4))
    before = bank.read_bytes()
    bank.unlink()
    tally = build(server, bank, house(4))
    assert (tally.written, tally.asked, tally.remembered) == (4, 0, 8)
    assert bank.read_bytes() == before


def _whole(server: WriterEndpoint, played: list[Trace], folder: Path) -> bytes:
    server.instead = lambda body: None
    build(server, folder / "whole.jsonl", played)
    return (folder / "whole.jsonl").read_bytes()


@patient
@given(data=st.data(), tasks=st.integers(1, 7), down_after=st.lists(st.integers(0, 8), max_size=3))
def test_a_build_that_the_endpoint_let_down_ends_as_one_that_was_not_and_asks_nothing_twice(
    server: WriterEndpoint, data: st.DataObject, tasks: int, down_after: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, played = Path(name), house(tasks)
        whole, bank = _whole(server, played, folder), folder / "bank.jsonl"
        server.answered = []
        for allowed in down_after:
            until, status = len(server.answered) + allowed, data.draw(st.sampled_from([429, 500, 503]))

            def down(body: dict[str, Any], until: int = until, status: int = status) -> Response | None:
                return trouble(status) if len(server.answered) >= until else None

            server.instead = down
            try:
                build(server, bank, played, concurrency=1)
            except EndpointError:
                assert whole.startswith(bank.read_bytes() if bank.exists() else b"")
        server.instead = lambda body: None
        build(server, bank, played)
        assert bank.read_bytes() == whole
        asked = [msgspec.json.encode(body["messages"]) for body in server.answered]
        assert len(asked) == len(set(asked)) == 2 * tasks


@patient
@given(tasks=st.integers(1, 6), after=st.integers(0, 6), concurrency=st.integers(1, 4))
def test_a_build_that_was_cancelled_ends_as_one_that_was_not(
    server: WriterEndpoint, tasks: int, after: int, concurrency: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, played = Path(name), house(tasks)
        whole, bank = _whole(server, played, folder), folder / "bank.jsonl"

        async def interrupted() -> None:
            me = asyncio.current_task()
            assert me is not None

            def look(tally: Tally) -> None:
                if tally.written >= after:
                    me.cancel()

            if after == 0:
                me.cancel()
            await _build(server, bank, played, Asking(), look, concurrency=concurrency)
            me.cancel()  # it was over before
            await asyncio.sleep(0)

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(interrupted())
        assert whole.startswith(bank.read_bytes() if bank.exists() else b"")
        build(server, bank, played)
        assert bank.read_bytes() == whole


@patient
@given(tasks=st.integers(1, 5), share=st.floats(0, 1), answers_share=st.floats(0, 1))
def test_files_that_were_cut_anywhere_are_completed(
    server: WriterEndpoint, tasks: int, share: float, answers_share: float
) -> None:
    """What a crash in mid-write, or a machine that lost its last seconds, leaves behind."""
    with tempfile.TemporaryDirectory() as name:
        played, bank = house(tasks), Path(name) / "whole.jsonl"
        whole = _whole(server, played, Path(name))
        answers = answers_path(bank)
        said = answers.read_bytes()
        bank.write_bytes(whole[: round(share * len(whole))])
        answers.write_bytes(said[: round(answers_share * len(said))])
        kept = bank.read_bytes().count(b"\n")
        tally = build(server, bank, played)
        assert bank.read_bytes() == whole
        assert tally.present == kept
        read_bank(bank)


def _die_while_building(url: str, bank: Path) -> None:
    """A process that is gone in the middle of a line."""
    import os

    class Server:
        base_url = url

    def look(tally: Tally) -> None:
        if tally.written == 2:
            with bank.open("ab") as file:
                file.write(b'{"id": "torn", "q": "Lea')
            os._exit(9)

    asyncio.run(_build(Server(), bank, house(5), Asking(), look))  # type: ignore[arg-type]


def test_a_process_that_died_in_mid_write_is_gone_on_with(server: WriterEndpoint, tmp_path: Path) -> None:
    whole, bank = _whole(server, house(5), tmp_path), tmp_path / "bank.jsonl"
    process = multiprocessing.get_context("spawn").Process(
        target=_die_while_building, args=(server.base_url, bank)
    )
    process.start()
    process.join(120)
    assert process.exitcode == 9
    assert bank.read_bytes().endswith(b"Lea")
    with open_bank(bank) as files:
        assert (files.torn, len(files.records)) == (1, 2)
    tally = build(server, bank, house(5))
    assert tally.present == 2
    assert bank.read_bytes() == whole


def test_a_second_build_on_the_same_file_is_refused(server: WriterEndpoint, tmp_path: Path) -> None:
    bank = tmp_path / "bank.jsonl"
    build(server, bank, house(2))
    with open_bank(bank):
        with pytest.raises(ConfigError, match=r"bank\.jsonl: another build is writing it"):
            build(server, bank, house(4))
        build(server, tmp_path / "other.jsonl", house(2))
    assert build(server, bank, house(4)).written == 2


def test_a_bank_with_a_wrong_line_is_not_gone_on_with(server: WriterEndpoint, tmp_path: Path) -> None:
    bank = tmp_path / "bank.jsonl"
    build(server, bank, house(3))
    lines = bank.read_bytes().replace(b'"house/1"', b"[]")
    bank.write_bytes(lines)
    with pytest.raises(ConfigError, match=r"bank\.jsonl, line 2, field task_id: .*must be sound"):
        build(server, bank, house(4))
    assert bank.read_bytes() == lines
    bank.unlink()
    answers_path(bank).write_bytes(b'{"key": 3}\n')
    with pytest.raises(ConfigError, match=r"bank\.jsonl\.answers, line 1: no answer of a writer"):
        build(server, bank, house(4))


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    bank = tmp_path / "none" / "bank.jsonl"
    with pytest.raises(ConfigError, match="can't write there: No such file"), open_bank(bank):
        pass


def test_what_goes_wrong_with_one_task_is_counted_and_costs_that_task_alone(
    server: WriterEndpoint, tmp_path: Path
) -> None:
    def instead(body: dict[str, Any]) -> Response | None:
        asked = question(body)
        if "Leave house 0." in asked:
            return trouble(400, "against the rules")
        if is_zoom(body):
            return completion("who knows") if "Leave house 1." in asked else None
        if "Leave house 2." in asked:
            return completion("Go right. And then go on and on and", "length")
        if "Leave house 3." in asked:
            return completion("and then go on and on and", "length")
        return completion("  ") if "Leave house 4." in asked else None

    server.instead = instead
    bank = tmp_path / "bank.jsonl"
    tally = build(server, bank, house(6))
    assert (tally.refused, tally.unzoomed, tally.cut, tally.empty, tally.written) == (1, 1, 1, 2, 3)
    assert tally.done == tally.jobs == 6
    one, two, five = read_bank(bank)
    assert [r.task_id for r in (one, two, five)] == ["house/1", "house/2", "house/5"]
    assert [r.cut for r in (one, two, five)] == [False, True, False]
    assert two.m == "Go right."
    again = build(server, bank, house(6))
    assert (again.present, again.refused, again.empty, again.asked) == (3, 1, 2, 0)


def test_a_hint_that_is_there_already_is_dropped(server: WriterEndpoint, tmp_path: Path) -> None:
    def same(body: dict[str, Any]) -> Response | None:
        return (
            None
            if is_zoom(body)
            else completion("Go  RIGHT." if "reached the goal." in question(body) else "go right.")
        )

    server.instead = same
    played = traces(trial("t", 1, lost("left"), won("right", index=1)))
    jobs = plan(by_task(played), "success") + plan(by_task(played), "failure")

    async def both() -> Tally:
        config = EndpointConfig(url=server.base_url, key_env=None)
        async with Endpoint(config, "small") as writer:
            with open_bank(tmp_path / "bank.jsonl") as files:
                return await Builder(files, writer, Asking()).build(jobs)

    tally = asyncio.run(both())
    assert (tally.written, tally.duplicates) == (1, 1)
    assert [r.m for r in read_bank(tmp_path / "bank.jsonl")] == ["Go  RIGHT."]


def test_tasks_that_look_alike_are_asked_about_once(server: WriterEndpoint, tmp_path: Path) -> None:
    """Else two answers to one question were kept, and going on would take the wrong one."""
    alike = traces(*(trial(f"t{n}", f"house/{n}", won("right")) for n in range(6)))
    tally = build(server, tmp_path / "bank.jsonl", alike, concurrency=4)
    assert (tally.asked, tally.remembered, tally.written, tally.duplicates) == (2, 10, 1, 5)
    assert len(answers_path(tmp_path / "bank.jsonl").read_bytes().splitlines()) == 2


def test_traces_that_no_shortening_fits_into_the_context_are_counted(
    server: WriterEndpoint, tmp_path: Path
) -> None:
    tally = build(server, tmp_path / "bank.jsonl", house(2), context_length=600)
    assert (tally.too_long, tally.written) == (2, 0)
    assert server.asked == []


def test_a_slow_answer_does_not_change_the_order_of_the_records(
    server: WriterEndpoint, tmp_path: Path
) -> None:
    import threading

    others = threading.Event()

    def slow_first(body: dict[str, Any]) -> None:
        if "Leave house 0." in question(body) and is_zoom(body):
            assert others.wait(30)
        elif "Leave house 3." in question(body) and not is_zoom(body):
            others.set()

    server.instead = slow_first
    build(server, tmp_path / "bank.jsonl", house(5))
    assert [r.task_id for r in read_bank(tmp_path / "bank.jsonl")] == [f"house/{n}" for n in range(5)]

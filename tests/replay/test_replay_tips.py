"""Books of tips on a real server: one log for all writers and readers, bounded, and there after a crash."""

import multiprocessing
import os
import random
import signal
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentmem.failures import ConfigError
from agentmem.memory.tips import Tip, TipBook, encode_key
from agentmem.replay import EmbeddedServer, RejectedError, ReplayBuffer, Settings, TipStats
from agentmem.replay.codec import CodecError
from agentmem.replay.inspect import summary
from tests.replay.makers import wait_for


def tip(text, source, action="north", score=0.0, step=0, key=(1.0, 0.0)):
    return Tip(text=text, action=action, score=score, step=step, source=source, key=encode_key(key))


def tips(source, count=3):
    return [tip(f"tip {i} of {source}", source, step=i, score=float(i)) for i in range(count)]


def texts(entries):
    return [entry.text for entry in entries]


def test_a_reader_keeps_a_book_in_step_by_reading_what_is_new(buffer):
    book = TipBook("room")
    assert buffer.read_tips("train", "room") == (0, (), 1)
    book.follow(*buffer.read_tips("train", "room"))
    assert buffer.add_tips("train", "room", tips("a:0"), "a:0") == 3
    book.follow(*buffer.read_tips("train", "room", book.version))
    assert buffer.add_tips("train", "room", tips("a:1", 2), "a:1") == 5
    log = buffer.read_tips("train", "room", book.version)
    assert (log.version, texts(log.entries), log.first_kept) == (5, ["tip 0 of a:1", "tip 1 of a:1"], 1)
    book.follow(*log)
    assert book.snapshot == "room@5"
    assert book.tips == (*tips("a:0"), *tips("a:1", 2))
    assert texts(book.recall([1.0, 0.0], k=2)) == ["tip 2 of a:0", "tip 1 of a:1"]
    assert buffer.read_tips("train", "room", 5) == (5, (), 1)


def test_a_source_counts_once_whatever_is_written_again(buffer):
    assert buffer.add_tips("train", "room", tips("a:0"), "a:0") == 3
    assert buffer.add_tips("train", "room", tips("a:0"), "a:0") == 3
    played_again = [tip("another lesson", "a:0")]
    assert buffer.add_tips("train", "room", played_again, "a:0") == 3
    assert buffer.add_tips("train", "hall", played_again, "a:0") == 1  # another task
    assert buffer.add_tips("train", "room", [], "b:0") == 3
    assert buffer.tip_stats("train").added == 4


def test_a_duplicate_is_dropped_but_not_one_of_another_score(buffer):
    buffer.add_tips("train", "room", [tip("look", "a:0"), tip("look", "a:0", step=1)], "a:0")
    entries = [
        tip("look", "b:0"),
        tip("look", "b:0", score=1.0),
        tip("look", "b:0", "south"),
        tip("look", "b:0", key=(0, 1)),
    ]
    assert buffer.add_tips("train", "room", entries, "b:0") == 4
    assert [(t.source, t.action, t.score) for t in buffer.read_tips("train", "room").entries] == [
        ("a:0", "north", 0.0),
        ("b:0", "north", 1.0),
        ("b:0", "south", 0.0),
        ("b:0", "north", 0.0),
    ]
    assert buffer.tip_stats("train").duplicates == 2


def test_the_oldest_leave_and_may_come_again(open_buffer):
    buffer = open_buffer(tips_per_task=3)
    book = TipBook("room", 3)
    buffer.add_tips("train", "room", tips("a:0"), "a:0")
    book.follow(*buffer.read_tips("train", "room"))
    buffer.add_tips("train", "room", tips("b:0", 2), "b:0")
    log = buffer.read_tips("train", "room", book.version)
    assert (log.version, log.first_kept) == (5, 3)
    book.follow(*log)
    assert texts(book.tips) == ["tip 2 of a:0", "tip 0 of b:0", "tip 1 of b:0"]
    assert buffer.add_tips("train", "room", [tip("tip 0 of a:0", "c:0")], "c:0") == 6
    assert buffer.add_tips("train", "room", tips("d:0", 7), "d:0") == 13
    log = buffer.read_tips("train", "room", book.version)  # all that the book knew is gone
    assert log.first_kept == 11
    book.follow(*log)
    assert texts(book.tips) == [f"tip {i} of d:0" for i in (4, 5, 6)]
    stats = buffer.tip_stats("train")
    assert (stats.tips, stats.added, stats.dropped) == (3, 13, 10)


def test_only_the_newest_sources_are_remembered(open_buffer):
    buffer = open_buffer(tips_per_task=2)
    for i in range(50):
        buffer.add_tips("train", "room", [tip(f"tip {i}", f"t{i}:0")], f"t{i}:0")
    assert buffer.server.client.zcard(buffer.keys("tipsrc:train:room")) == 2
    assert buffer.server.client.scard(buffer.keys("tiphas:train:room")) == 2
    assert buffer.add_tips("train", "room", [tip("once more", "t49:0")], "t49:0") == 50


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(0, 8),
            st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("ns"))),
            st.booleans(),
        ),
        max_size=10,
    ),
    st.integers(1, 5),
)
def test_the_server_and_the_pure_book_hold_the_same(open_buffer, writes, limit):
    buffer, own = open_buffer(tips_per_task=limit), TipBook("room", limit)
    buffer.drop_tips("train")
    base = buffer.read_tips("train", "room").version
    own.follow(base, [], base + 1)
    follower, known = TipBook("room", limit), []
    for source, pairs, look in writes:
        entries = [tip(text, f"{source}:0", action) for text, action in pairs]
        version = buffer.add_tips("train", "room", entries, f"{source}:0")
        if entries and source not in known[-limit:]:
            own.add(entries)
            known.append(source)
        assert version == own.version
        if look:
            follower.follow(*buffer.read_tips("train", "room", follower.version))
            assert (follower.tips, follower.snapshot) == (own.tips, own.snapshot)
    assert buffer.read_tips("train", "room") == (own.version, own.tips, own.first_kept)


def _write(url, run, name, sources):
    rng = random.Random(name)
    with ReplayBuffer(url, run, tips_per_task=100_000) as buffer:
        for i in range(sources):
            task, source = f"task {i % 2}", f"{name}{i}:0"
            for _ in range(rng.choice((1, 2, 3))):  # a writer that didn't hear the reply writes again
                buffer.add_tips("train", task, tips(source), source)


def test_two_writers_that_repeat_themselves_and_a_reader_see_each_tip_once(open_buffer, server):
    reader, books = open_buffer(), {task: TipBook(task, 100_000) for task in ("task 0", "task 1")}
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(server.url, reader.run, name, 60)) for name in ("a", "b")]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        for book in books.values():
            book.follow(*reader.read_tips("train", book.task, book.version))
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    for task, book in books.items():
        book.follow(*reader.read_tips("train", task, book.version))
        assert book.version == len(book) == 2 * 30 * 3
        assert len({t.text for t in book.tips}) == len(book)
        assert book.tips == reader.read_tips("train", task).entries
        # The tips of one source stay together: a write is atomic.
        assert [t.step for t in book.tips] == [0, 1, 2] * 60


def test_a_killed_server_comes_back_with_its_tips(tmp_path):
    server = EmbeddedServer(tmp_path / "data")
    buffer = ReplayBuffer(server.start(), "r", tips_per_task=4)
    try:
        buffer.add_tips("train", "room", tips("a:0"), "a:0")
        buffer.add_tips("train", "room", tips("b:0"), "b:0")
        buffer.drop_tips("adapt-1")
        before, stats = buffer.read_tips("train", "room"), buffer.tip_stats("train")
        os.kill(server.pid, signal.SIGKILL)
        wait_for(lambda: not server.alive, "the server to die")
        server.start()
        assert buffer.read_tips("train", "room") == before
        assert buffer.tip_stats("train") == stats
        assert before.version == 6
        assert len(before.entries) == 4
        assert buffer.add_tips("train", "room", tips("b:0"), "b:0") == 6
        assert buffer.add_tips("train", "room", tips("c:0", 1), "c:0") == 7
    finally:
        server.stop()


def test_a_write_waits_for_a_server_that_restarts_and_enters_once(tmp_path):
    server = EmbeddedServer(tmp_path)
    buffer = ReplayBuffer(server.start(), "r")
    try:
        buffer.add_tips("train", "room", tips("a:0"), "a:0")
        os.kill(server.pid, signal.SIGKILL)
        wait_for(lambda: not server.alive, "the server to die")
        versions = []
        thread = threading.Thread(
            target=lambda: versions.append(buffer.add_tips("train", "room", tips("b:0"), "b:0"))
        )
        thread.start()
        server.start()
        thread.join(25)
        assert versions == [6]
        assert buffer.read_tips("train", "room").version == 6
    finally:
        server.stop()


def test_namespaces_and_runs_are_apart(buffer, server):
    buffer.add_tips("train", "room", tips("a:0"), "a:0")
    buffer.add_tips("adapt-1", "room", tips("a:0", 1), "a:0")
    buffer.add_tips("adapt-1", "hall: east", tips("a:0", 2), "a:0")
    assert buffer.tip_namespaces() == ["adapt-1", "train"]
    assert buffer.tip_stats("adapt-1").tasks == 2
    assert buffer.tip_stats("adapt-1").tips == 3
    assert len(buffer.read_tips("adapt-1", "hall: east").entries) == 2
    with ReplayBuffer(server.url, buffer.run + "-other") as other:
        assert other.read_tips("train", "room").entries == ()
    assert buffer.drop_tips("adapt-1") == 3
    assert buffer.drop_tips("adapt-1") == 0
    assert buffer.tip_stats("adapt-1") == TipStats()
    assert buffer.tip_stats("train").tips == buffer.counters().tips == 3
    left = [key for key in buffer.server.client.keys(buffer.keys.prefix + "*") if b"adapt" in key]
    assert left == []


def test_a_version_never_comes_twice_after_a_drop(buffer):
    buffer.add_tips("train", "room", tips("a:0"), "a:0")
    book = TipBook("room")
    book.follow(*buffer.read_tips("train", "room"))
    buffer.drop_tips("train")
    empty = buffer.read_tips("train", "room", book.version)
    assert empty.version > book.version
    assert (empty.entries, empty.first_kept) == ((), empty.version + 1)
    assert (
        buffer.add_tips("train", "room", tips("a:0"), "a:0") == empty.version + 3
    )  # forgotten with its tips
    book.follow(*buffer.read_tips("train", "room", book.version))
    assert (len(book), book.version) == (3, empty.version + 3)


def test_a_reader_ahead_of_the_book_gets_all_of_it(buffer):
    """As after a server that lost what was written last."""
    book = TipBook("room")
    book.follow(9, tips("lost:0", 9), 1)
    buffer.add_tips("train", "room", tips("a:0"), "a:0")
    book.follow(*buffer.read_tips("train", "room", book.version))
    assert (book.version, book.tips) == (3, tuple(tips("a:0")))


def test_above_the_byte_bound_the_book_written_longest_ago_goes(open_buffer):
    buffer = open_buffer()
    for task in ("a", "b", "c"):
        buffer.add_tips("train", task, tips(task + "0:0"), task + "0:0")
    size = buffer.counters().tip_bytes
    assert size == buffer.tip_stats("train").bytes > 0
    small = open_buffer(tip_bytes=size)
    small.add_tips("train", "a", tips("a1:0", 1), "a1:0")
    assert small.read_tips("train", "b").entries == ()
    assert [len(small.read_tips("train", task).entries) for task in ("a", "c")] == [4, 3]
    assert small.counters().tip_bytes <= size
    assert small.tip_stats("train") == TipStats(
        tasks=2, tips=7, bytes=small.counters().tip_bytes, added=10, dropped=3
    )
    # A book that is alone loses its oldest entries.
    small.add_tips("eval", "d", tips("d:0", 40), "d:0")
    log = small.read_tips("eval", "d")
    assert small.tip_namespaces() == ["eval"]
    assert (log.version - log.first_kept + 1, log.entries[-1].text) == (len(log.entries), "tip 39 of d:0")
    assert 0 < len(log.entries) < 40
    assert small.counters().tip_bytes <= size
    assert small.counters().tips == len(log.entries)


def test_bytes_counted_are_the_bytes_held(open_buffer):
    buffer = open_buffer(tips_per_task=3)
    rng = random.Random(1)
    for i in range(30):
        source = f"t{i}:0"
        entries = [tip("x" * rng.randrange(1, 50), source, step=k) for k in range(rng.randrange(1, 4))]
        buffer.add_tips("train", f"task {i % 4}", entries, source)
    client, prefix = buffer.server.client, buffer.keys("tiplog:")
    logs = [client.lrange(key, 0, -1) for key in client.keys(prefix + "*")]
    stats, counters = buffer.tip_stats("train"), buffer.counters()
    assert stats.bytes == counters.tip_bytes == sum(len(entry) for log in logs for entry in log)
    assert stats.tips == counters.tips == sum(map(len, logs))
    assert stats.added == stats.tips + stats.dropped
    assert stats.tasks == 4
    assert counters.identity_holds
    assert counters.buffer_bytes == 0


def test_a_key_of_another_dimension_is_refused_before_anything_is_stored(buffer):
    buffer.add_tips("train", "room", tips("a:0"), "a:0")
    mixed = [tip("x", "b:0"), tip("y", "b:0", key=(1, 0, 0))]
    with pytest.raises(RejectedError, match="b:0 has a key of 3 numbers, the others have 2"):
        buffer.add_tips("train", "room", mixed, "b:0")
    with pytest.raises(RejectedError, match=r"train/room .* key of 3 .* have 2 .*memory.embedder"):
        buffer.add_tips("train", "room", mixed[1:], "b:0")
    assert buffer.read_tips("train", "room").version == 3
    assert buffer.add_tips("train", "room", mixed[:1], "b:0") == 4  # the refused source was not remembered
    assert buffer.add_tips("train", "hall", mixed[1:], "b:0") == 1


def test_names_and_sources_are_checked(buffer):
    with pytest.raises(RejectedError, match="one is of a:0, not of b:0"):
        buffer.add_tips("train", "room", tips("a:0"), "b:0")
    for namespace in ("", "a:b"):
        with pytest.raises(RejectedError, match="must not be empty or hold a colon"):
            buffer.add_tips(namespace, "room", tips("a:0"), "a:0")
    with pytest.raises(RejectedError, match="no name"):
        buffer.read_tips("train", "")
    with pytest.raises(RejectedError, match="no source"):
        buffer.add_tips("train", "room", [tip("x", "")], "")
    for name in ("tips_per_task", "tip_bytes"):
        with pytest.raises(ConfigError, match=f"replay.{name} is 0: must be > 0"):
            Settings(**{name: 0})


def test_a_damaged_entry_is_named(buffer):
    buffer.add_tips("train", "room", tips("a:0"), "a:0")
    key = buffer.keys("tiplog:train:room")
    data = buffer.server.client.lindex(key, 1)
    buffer.server.client.lset(key, 1, data[:40])
    with pytest.raises(CodecError, match="tip 2 of train/room is damaged"):
        buffer.read_tips("train", "room")
    not_finite = data.replace(encode_key([1.0, 0.0]), np.array([np.nan, 0], dtype="<f2").tobytes())
    assert not_finite != data
    buffer.server.client.lset(key, 1, not_finite)
    with pytest.raises(CodecError, match="tip 2 .* non-finite"):
        buffer.read_tips("train", "room", after=1)
    assert len(buffer.read_tips("train", "room", after=2).entries) == 1


def test_dropping_works_on_a_full_server_and_makes_room(tmp_path):
    with EmbeddedServer(tmp_path, maxmemory_bytes=6 << 20) as server, ReplayBuffer(server.url, "r") as buffer:
        buffer.add_tips("adapt-1", "room", tips("a:0", 900), "a:0")
        client = buffer.server.client
        used = client.info("memory")["used_memory"]
        client.config_set("maxmemory", used - 1)
        done = []
        thread = threading.Thread(
            target=lambda: done.append(buffer.add_tips("train", "room", tips("b:0"), "b:0"))
        )
        thread.start()
        assert buffer.drop_tips("adapt-1") == 900
        thread.join(30)
        assert done == [buffer.read_tips("train", "room").version]
        assert buffer.tip_stats("train").tips == 3


def test_a_summary_names_tips_by_namespace(buffer):
    buffer.add_tips("train", "room", tips("a:0"), "a:0")
    seen = summary(buffer)["tips"]
    assert list(seen) == ["train"]
    assert (seen["train"]["tasks"], seen["train"]["tips"]) == (1, 3)
    assert seen["train"]["bytes"] == buffer.counters().tip_bytes

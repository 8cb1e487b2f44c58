"""Payloads that can't be read, inserts that may not enter, trials that come too late: each is counted."""

import random

import msgspec
import pytest

from agentmem.replay import Progress, RejectedError, codec
from agentmem.trajectory import SchemaError, Split, StopReason, Ticket
from tests.replay.makers import make_episode, make_group, make_ticket, make_trial, played


def fill(buffer, *groups, size=2, text="up"):
    for group in groups:
        buffer.submit(make_group(group, size))
    buffer.commit(played(buffer.claim("w", size * len(groups)), text=text))


def damage(buffer, ticket, how=lambda data: data[:-6] + b"xxxxxx"):
    key = buffer.keys.payload(ticket, 1)[0]
    buffer.server.client.set(key, how(buffer.server.client.get(key)))


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("how", [lambda d: d[: len(d) // 2], lambda d: b"\xc1" + d[1:], lambda d: b""])
def test_whatever_is_damaged_is_set_aside_and_the_run_goes_on(open_buffer, level, how):
    buffer = open_buffer(compression=level)
    fill(buffer, "a", "b")
    damage(buffer, "a-0", how)
    groups = buffer.take_groups(2)
    assert [(g.id, len(g.trials)) for g in groups] == [("a", 1), ("b", 2)]
    buffer.finish_groups(["a", "b"], "trained")
    counters = buffer.counters()
    assert (counters.trained, counters.failed, counters.drops["corrupt"], counters.bytes) == (3, 1, 1, 0)
    assert counters.identity_holds
    assert "damaged" in buffer.dead_letters()[0].what


def test_the_bytes_set_aside_are_counted_and_bounded(open_buffer):
    buffer = open_buffer(compression=0, byte_budget=1 << 30)
    for n in range(12):
        fill(buffer, f"g{n}", size=1, text="x" * 1_000_000)
        damage(buffer, f"g{n}-0", lambda d: b"\xc1" + d[1:])
        assert buffer.take_groups(1) == []
    counters = buffer.counters()
    assert counters.drops["corrupt"] == counters.failed == 12 - counters.drops.get("group_below_min", 0)
    assert 7_000_000 < counters.quarantined_bytes <= 8 << 20
    kept = buffer.server.client.keys(buffer.keys("bad:*"))
    assert sum(buffer.server.client.strlen(key) for key in kept) == counters.quarantined_bytes
    assert counters.buffer_bytes == counters.quarantined_bytes


def test_what_was_set_aside_gives_way_to_new_trials(open_buffer):
    buffer = open_buffer(compression=0, byte_budget=25_000)
    fill(buffer, "a", size=1, text="x" * 20_000)
    damage(buffer, "a-0", lambda d: b"\xc1" + d[1:])
    assert buffer.take_groups(1) == []
    assert buffer.counters().quarantined_bytes > 20_000
    fill(buffer, "b", size=1, text="x" * 20_000)
    assert buffer.counters().quarantined_bytes == 0
    assert buffer.counters().buffered == 1


def test_a_damaged_evaluation_result_counts_as_failed(buffer):
    buffer.submit([make_ticket("board", m, 2, Split.EVAL) for m in range(2)])
    buffer.commit(played(buffer.claim("w", 2)))
    damage(buffer, "board-0")
    assert [t.ticket for t in buffer.take_eval("board") or []] == ["board-1"]
    counters = buffer.counters()
    assert (counters.eval_done, counters.eval_failed, counters.drops["corrupt"]) == (1, 1, 1)
    assert counters.identity_holds
    assert buffer.dead_letters()[0].eval
    buffer.drop_eval("board")
    assert buffer.counters().bytes == 0


def test_a_damaged_group_leaves_the_replay_table(open_buffer):
    buffer = open_buffer(replay_groups=4)
    fill(buffer, "a", "b")
    buffer.finish_groups([g.id for g in buffer.take_groups(2)], "trained")
    damage(buffer, "a-1")
    assert [g.id for g in buffer.sample_replay(2, 1, random.Random(0))] == ["b"]
    counters = buffer.counters()
    assert (counters.trained, counters.replay_groups, counters.drops["corrupt"]) == (4, 1, 1)
    assert counters.identity_holds
    client = buffer.server.client
    stored = sum(client.strlen(key) for key in client.keys(buffer.keys("d:*")))
    assert stored == counters.replay_bytes


def test_a_payload_of_another_schema_version_is_refused_naming_both(buffer):
    fill(buffer, "a", size=1)
    other = msgspec.msgpack.encode((99, make_trial(make_ticket("a"))))
    damage(buffer, "a-0", lambda _: other)
    with pytest.raises(SchemaError, match="schema version 99: this program reads versions 1 to 2"):
        buffer.take_groups(1)


HUNG = msgspec.structs.replace(make_episode(0), reward=None, stop=StopReason.ENV_FAILURE)


def change(ticket, /, **changes):
    return msgspec.structs.replace(make_trial(ticket), **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ticket": "other"}, "trial other: its ticket is 'other'"),
        ({"member": 1}, "trial a-0: its member is 1, its ticket's is 0"),
        ({"group_size": 3}, "trial a-0: its group_size is 3, its ticket's is 2"),
        ({"task": make_ticket("b").task}, "trial a-0: its task is .*group='b'"),
        ({"episodes": (HUNG,)}, "trial a-0 failed .an episode has no reward.: report it with fail"),
    ],
)
def test_a_refused_commit_names_the_trial_and_the_invariant(buffer, changes, message):
    buffer.submit(make_group("a", 2))
    claims = buffer.claim("w", 2)
    good = (claims[1], make_trial(claims[1].ticket))
    with pytest.raises(RejectedError, match=message):
        buffer.commit([good, (claims[0], change(claims[0].ticket, **changes))])
    assert buffer.counters().running == 2  # nothing of the call was stored


def test_a_payload_that_is_too_large_is_refused_naming_the_trial(buffer, monkeypatch):
    monkeypatch.setattr(codec, "MAX_PAYLOAD_BYTES", 1000)
    buffer.submit(make_group("a", 1))
    claims = buffer.claim("w", 1)
    with pytest.raises(RejectedError, match=r"trial a-0: payload has \d+ bytes: at most 1000"):
        buffer.commit(played(claims, text="x" * 2000))
    with pytest.raises(RejectedError, match=r"trial a-0, episode 0: payload has \d+ bytes: at most 1000"):
        buffer.save_progress([Progress(claim=claims[0], episode=make_episode(0, text="x" * 2000))])


@pytest.mark.parametrize(
    ("ticket", "message"),
    [
        (make_ticket("a", 2, 2), "ticket a-2 was refused: its member is 2 in a group of 2"),
        (make_ticket("a", -1, 2), "ticket a--1 was refused: its member is -1"),
        (make_ticket("a", 0, 0), "ticket a-0 was refused: its member is 0 in a group of 0"),
    ],
)
def test_a_refused_ticket_names_the_invariant(buffer, ticket, message):
    with pytest.raises(RejectedError, match=message):
        buffer.submit([ticket])
    assert buffer.counters().submitted == 0


def sampled(ticket: Ticket, tokens: int, environment: str):
    turn = make_episode(0).turns[0]
    turn = msgspec.structs.replace(
        turn, response_ids=(1,) * tokens, logprobs=(-0.5,) * tokens, versions=(3,) * tokens
    )
    return msgspec.structs.replace(
        make_trial(ticket), episodes=(msgspec.structs.replace(make_episode(0), turns=(turn,)),)
    )


def test_expired_trials_are_counted_by_environment_and_by_length(buffer):
    for name, environment, tokens in (("a", "sokoban", 3), ("b", "web:shop", 64), ("c", "sokoban", 65)):
        task = msgspec.structs.replace(make_ticket(name).task, environment=environment)
        buffer.submit([msgspec.structs.replace(make_ticket(name), task=task)])
        (claim,) = buffer.claim("w", 1)
        buffer.commit([(claim, sampled(claim.ticket, tokens, environment))])
    assert buffer.take_groups(1, min_version=3) != []
    buffer.return_groups(["a"])
    assert buffer.take_groups(3, current_version=9, max_staleness=2) == []
    counters = buffer.counters()
    assert counters.expired == counters.drops["stale"] == 3
    assert counters.expired_by_env == {"sokoban": 2, "web:shop": 1}
    assert counters.expired_by_length == {4: 1, 64: 1, 128: 1}
    assert counters.identity_holds


def test_expired_trials_that_come_back_are_not_counted(buffer):
    fill(buffer, "a")
    cursor = buffer.finish_groups([g.id for g in buffer.take_groups(1)], "expired", hold=True)
    assert buffer.counters().expired_by_env == {"sokoban": 2}
    buffer.rewind(cursor - 1)
    counters = buffer.counters()
    assert (counters.expired, counters.expired_by_env, counters.expired_by_length) == (0, {}, {})

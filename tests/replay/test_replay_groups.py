"""Groups: complete ones come out, oldest first, each consumed once, whatever dies in between."""

import random
import threading

import pytest

from agentmem.failures import Failure, FailureKind
from agentmem.replay import RejectedError
from agentmem.trajectory import Split
from tests.replay.makers import make_group, make_ticket, make_trial, played, wait_for

DATA = Failure(kind=FailureKind.DATA, what="no such level")


def fill(buffer, *groups, size=2, version=0):
    for group in groups:
        buffer.submit(make_group(group, size))
    buffer.commit(played(buffer.claim("w", size * len(groups)), version))


def test_a_group_is_ready_when_its_last_member_has_committed(buffer):
    buffer.submit(make_group("a", 3))
    claims = buffer.claim("w", 3)
    buffer.commit(played(claims[:2]))
    assert buffer.ready_groups() == 0
    assert buffer.take_groups(1) == []
    buffer.commit(played(claims[2:], version=4))
    (group,) = buffer.take_groups(1)
    assert [t.member for t in group.trials] == [0, 1, 2]
    assert (group.id, group.size, group.versions) == ("a", 3, (0, 4))
    assert group.trials[2] == make_trial(claims[2].ticket, version=4)


def test_groups_come_oldest_first_in_whatever_order_they_were_completed(buffer):
    for name in "abc":
        buffer.submit(make_group(name, 1))
    claims = buffer.claim("w", 3)
    for claim in reversed(claims):
        buffer.commit(played([claim]))
    assert [g.id for g in buffer.take_groups(2)] == ["a", "b"]
    buffer.return_groups(["a"])
    assert [g.id for g in buffer.take_groups(2)] == ["a", "c"]


def test_a_consumed_group_is_gone_with_its_bytes(buffer):
    fill(buffer, "a", "b", "c")
    assert [g.id for g in buffer.take_groups(3)] == ["a", "b", "c"]
    assert buffer.finish_groups(["a"], "trained") == 1
    assert buffer.finish_groups(["b"], "filtered") == 2
    assert buffer.finish_groups(["c"], "expired") == 3
    assert buffer.finish_groups(["a", "b", "c"], "trained") == 3
    counters = buffer.counters()
    assert (counters.trained, counters.filtered, counters.expired) == (2, 2, 2)
    assert counters.bytes == counters.buffered == counters.groups_taken == 0
    assert counters.identity_holds
    left = {key.rpartition(b":")[2] for key in buffer.server.client.keys(buffer.keys.prefix + "*")}
    assert left == {b"train", b"again", b"eval", b"done", b"n", b"meta", b"swept", b"expired"}


def test_a_learner_that_dies_returns_its_groups(open_buffer):
    dead, restarted = open_buffer(), open_buffer()
    fill(dead, "a", "b")
    assert len(dead.take_groups(2)) == 2
    assert restarted.take_groups(2) == []
    assert restarted.counters().buffered == 4
    assert restarted.recover_groups() == 2
    assert [g.id for g in restarted.take_groups(2)] == ["a", "b"]


def test_groups_of_a_silent_learner_are_ready_again_after_their_lease(open_buffer):
    buffer = open_buffer(group_lease_s=0.05)
    fill(buffer, "a")
    assert len(buffer.take_groups(1, consumer="silent")) == 1
    assert buffer.renew_groups(["a"]) == 1
    wait_for(lambda: bool(buffer.take_groups(1, consumer="other")), "the group of the silent learner")
    assert buffer.counters().group_leases_expired == 1


def test_a_group_with_failures_is_complete_with_the_members_that_are_left(open_buffer):
    buffer = open_buffer(min_group=2)
    buffer.submit(make_group("a", 3))
    claims = buffer.claim("w", 3)
    buffer.fail(claims[1:2], DATA, retry=False)
    buffer.commit(played([claims[0], claims[2]]))
    (group,) = buffer.take_groups(1)
    assert [t.member for t in group.trials] == [0, 2]
    assert group.size == 3
    buffer.finish_groups([group.id], "trained")
    counters = buffer.counters()
    assert (counters.trained, counters.failed) == (2, 1)


def test_a_group_below_the_minimum_fails_as_a_whole(open_buffer):
    buffer = open_buffer(min_group=2)
    buffer.submit(make_group("a", 2))
    claims = buffer.claim("w", 2)
    buffer.commit(played(claims[:1]))
    buffer.fail(claims[1:], DATA, retry=False)
    assert buffer.ready_groups() == 0
    counters = buffer.counters()
    assert (counters.failed, counters.buffered, counters.bytes) == (2, 0, 0)
    assert counters.drops["group_below_min"] == 1
    assert counters.identity_holds


def test_a_waiting_learner_is_woken_by_the_last_commit(open_buffer):
    learner, agent = open_buffer(), open_buffer()
    agent.submit(make_group("a", 1) + make_group("b", 1))
    claims = agent.claim("w", 2)
    agent.commit(played(claims[:1]))
    taken = []
    thread = threading.Thread(target=lambda: taken.extend(learner.take_groups(2, at_least=2, block_s=20)))
    thread.start()
    agent.commit(played(claims[1:]))
    thread.join(15)
    assert [g.id for g in taken] == ["a", "b"]


def test_at_least_leaves_too_few_groups_where_they_are(buffer):
    fill(buffer, "a")
    assert buffer.take_groups(4, at_least=2, block_s=0.05) == []
    assert buffer.ready_groups() == 1


def test_groups_beyond_the_staleness_limit_expire(buffer):
    fill(buffer, "old", version=3)
    fill(buffer, "new", version=5)
    assert [g.id for g in buffer.take_groups(2, current_version=5, max_staleness=1)] == ["new"]
    counters = buffer.counters()
    assert counters.expired == counters.drops["stale"] == 2
    assert counters.identity_holds


def test_no_staleness_trains_on_the_current_version_only(buffer):
    fill(buffer, "before", version=4)
    fill(buffer, "now", version=5)
    groups = buffer.take_groups(2, current_version=5, max_staleness=0)
    assert [g.versions for g in groups] == [(5, 5)]


def test_evaluation_never_reaches_a_training_table(buffer):
    fill(buffer, "a")
    held_out = [make_ticket("board", m, 2, split=Split.EVAL) for m in range(2)]
    buffer.submit(held_out, batch="before")
    claims = buffer.claim("w", 2)
    buffer.commit(played(claims[:1]))
    assert buffer.take_eval("before") is None
    buffer.commit(played(claims[1:]))
    results = buffer.take_eval("before", block_s=5)
    assert [t.ticket for t in results] == ["board-0", "board-1"]
    assert [g.id for g in buffer.take_groups(9)] == ["a"]
    counters = buffer.counters()
    assert (counters.submitted, counters.eval_submitted, counters.eval_done) == (2, 2, 2)
    buffer.drop_eval("before")
    assert buffer.eval_results("before") == []
    assert buffer.counters().eval_done == 2


def test_an_evaluation_ticket_can_not_be_committed_as_training(buffer):
    import msgspec

    buffer.submit([make_ticket("board", 0, split=Split.EVAL)])
    (claim,) = buffer.claim("w", 1)
    disguised = msgspec.structs.replace(claim.ticket, task=make_ticket("board").task)
    claim = msgspec.structs.replace(claim, ticket=disguised)
    with pytest.raises(RejectedError, match="trial board-0 has split train, its ticket has another"):
        buffer.commit(played([claim]))
    assert buffer.counters().buffered == 0


def test_a_failed_evaluation_ticket_completes_its_batch(buffer):
    buffer.submit([make_ticket("board", m, 2, split=Split.EVAL) for m in range(2)], batch="b")
    claims = buffer.claim("w", 2)
    buffer.commit(played(claims[:1]))
    buffer.fail(claims[1:], DATA, retry=False)
    assert len(buffer.take_eval("b") or []) == 1
    assert buffer.eval_status("b").failed == 1
    assert buffer.counters().failed == 0
    assert buffer.counters().identity_holds


def test_dropping_an_unfinished_evaluation_withdraws_its_tickets(buffer):
    buffer.submit([make_ticket("board", m, 3, split=Split.EVAL) for m in range(3)], batch="b")
    claims = buffer.claim("w", 2)
    assert buffer.drop_eval("b") == 3
    assert buffer.commit(played(claims[:1])) == ["duplicate"]
    assert buffer.claim("w", 1) == []
    assert buffer.counters().identity_holds


def test_what_was_consumed_after_the_checkpoint_comes_back(buffer):
    fill(buffer, "a", "b", "c")
    buffer.take_groups(3)
    checkpoint = buffer.finish_groups(["a"], "trained", hold=True)
    buffer.finish_groups(["b"], "trained", hold=True)
    buffer.finish_groups(["c"], "filtered", hold=True)
    assert buffer.rewind(checkpoint) == 2
    assert buffer.counters().trained == 2
    assert buffer.counters().identity_holds
    assert [g.id for g in buffer.take_groups(3)] == ["b", "c"]
    cursor = buffer.finish_groups(["b", "c"], "trained", hold=True)
    assert buffer.settle(cursor) == 3
    counters = buffer.counters()
    assert (counters.trained, counters.bytes, counters.groups_held) == (6, 0, 0)


def test_replay_draws_trained_groups_up_to_the_limit(open_buffer):
    buffer = open_buffer(replay_groups=2, max_samples=2)
    fill(buffer, "a", "b", "c")
    buffer.take_groups(3)
    buffer.finish_groups(["a", "b"], "trained")
    buffer.finish_groups(["c"], "filtered")
    rng = random.Random(0)
    assert {g.id for g in buffer.sample_replay(5, 1, rng)} == {"a", "b"}
    assert {g.id for g in buffer.sample_replay(5, 1, rng)} == {"a", "b"}
    assert buffer.sample_replay(5, 1, rng) == []
    counters = buffer.counters()
    assert (counters.replay_drawn, counters.replay_bytes, counters.trained) == (8, 0, 4)
    assert counters.identity_holds


def test_replay_is_bounded_and_the_oldest_leave(open_buffer):
    buffer = open_buffer(replay_groups=2)
    fill(buffer, "a", "b", "c")
    buffer.finish_groups([g.id for g in buffer.take_groups(3)], "trained")
    assert {g.id for g in buffer.sample_replay(5, 1, random.Random(0))} == {"b", "c"}
    assert buffer.counters().replay_evicted == 1


def test_replay_prefers_fresh_groups(open_buffer):
    buffer = open_buffer(replay_groups=2, max_samples=1000, staleness_decay=0.5)
    fill(buffer, "old", version=0)
    fill(buffer, "new", version=2)
    buffer.finish_groups([g.id for g in buffer.take_groups(2)], "trained")
    rng = random.Random(1)
    drawn = [buffer.sample_replay(1, 2, rng)[0].id for _ in range(200)]
    assert 140 <= drawn.count("new") <= 180  # expected 0.8 of 200


def test_a_damaged_payload_is_set_aside_and_the_run_goes_on(buffer):
    fill(buffer, "a", "b")
    key = buffer.keys.payload("a-0", 1)[0]
    data = buffer.server.client.get(key)
    buffer.server.client.set(key, data[:-6] + b"xxxxxx")
    groups = buffer.take_groups(2)
    assert [(g.id, len(g.trials)) for g in groups] == [("a", 1), ("b", 2)]
    buffer.finish_groups(["a", "b"], "trained")
    counters = buffer.counters()
    assert (counters.trained, counters.failed, counters.drops["corrupt"]) == (3, 1, 1)
    assert counters.bytes == 0
    assert counters.identity_holds
    assert buffer.dead_letters()[0].where == "payload"


def test_payloads_above_a_megabyte_are_chunked(open_buffer):
    buffer = open_buffer(compression=0)
    buffer.submit(make_group("a", 1))
    (claim,) = buffer.claim("w", 1)
    text = "0123456789" * 250_000
    buffer.commit(played([claim], text=text))
    sizes = [buffer.server.client.strlen(key) for key in buffer.keys.payload("a-0", 3)]
    assert sizes[0] == sizes[1] == 1 << 20
    (group,) = buffer.take_groups(1)
    assert group.trials[0] == make_trial(claim.ticket, text=text)
    buffer.finish_groups(["a"], "trained")
    assert buffer.server.client.exists(*buffer.keys.payload("a-0", 3)) == 0

"""Tickets: queued once, claimed under a lease, continued by others, committed once."""

import msgspec
import pytest

from agentmem.failures import Failure, FailureKind
from agentmem.replay import CommitResult, FailResult, Progress, RejectedError
from agentmem.trajectory import Split, TurnKind
from tests.replay.makers import ids, make_episode, make_group, make_ticket, make_trial, make_turn, played

CRASH = Failure(kind=FailureKind.INFRASTRUCTURE, what="env worker died", where="env")


def test_submitting_again_adds_nothing(buffer):
    assert buffer.submit(make_group("a", 3)) == 3
    assert buffer.submit(make_group("a", 3)) == 0
    assert buffer.counters().submitted == buffer.counters().queued == 3


def test_tickets_of_a_consumed_group_are_not_taken_for_new_ones(buffer):
    buffer.submit(make_group("a"))
    buffer.commit(played(buffer.claim("w", 2)))
    buffer.finish_groups([g.id for g in buffer.take_groups(1)], "trained")
    assert buffer.submit(make_group("a")) == 0
    assert buffer.claim("w", 1) == []


def test_tickets_are_claimed_oldest_first_and_evaluations_before_them(buffer):
    buffer.submit(make_group("a"))
    buffer.submit([make_ticket("held-out", 0, split=Split.EVAL)])
    assert ids(buffer.claim("w", 2)) == ["held-out-0", "a-0"]
    assert ids(buffer.claim("w", 2)) == ["a-1"]


def test_a_waiting_claim_is_woken_by_a_submit(open_buffer):
    import threading

    waiting, other = open_buffer(), open_buffer()
    found = []
    thread = threading.Thread(target=lambda: found.extend(waiting.claim("w", 1, block_s=20)))
    thread.start()
    other.submit(make_group("a", 1))
    thread.join(15)
    assert ids(found) == ["a-0"]


def test_a_dead_drivers_claims_are_queued_again_and_cost_their_tickets_nothing(open_buffer):
    buffer = open_buffer(max_kills=2)
    buffer.submit(make_group("a", 2))
    buffer.submit([make_ticket("held-out", 0, split=Split.EVAL)])
    for n in range(4):
        claims = buffer.claim(f"agent-{n}", 3)
        assert ids(claims) == ["held-out-0", "a-0", "a-1"]
        assert all(claim.ticket.attempt == 0 for claim in claims)
        assert buffer.recall() == 3
        assert not any(buffer.renew(claims))
    assert buffer.counters().queued == 2
    assert buffer.counters().dead_letters == 0
    buffer.claim("w", 3)
    assert buffer.commit(played(claims))[1:] == [CommitResult.ACCEPTED] * 2  # late, but nobody was faster
    assert buffer.counters().identity_holds


def test_a_dead_workers_tickets_continue_after_their_last_finished_episode(buffer):
    buffer.submit(make_group("a", 1))
    (claim,) = buffer.claim("dead", 1)
    reflection = make_turn(TurnKind.REFLECT, text="push the left box first")
    buffer.save_progress(
        [
            Progress(claim=claim, episode=make_episode(0), wall_s=1.5),
            Progress(claim=claim, episode=make_episode(1), reflections=(reflection,), wall_s=0.5),
        ]
    )
    assert buffer.claim("w", 1) == []
    assert buffer.forfeit("dead") == 1
    (taken,) = buffer.claim("w", 1)
    assert taken.episodes == (make_episode(0), make_episode(1))
    assert taken.reflections == (reflection,)
    assert taken.wall_s == 2.0
    assert taken.ticket.attempt == 1
    assert buffer.counters().leases_expired == 1


def test_a_lease_expires_by_itself_unless_renewed(open_buffer):
    buffer = open_buffer(lease_s=0.05)
    buffer.submit(make_group("a", 1))
    (claim,) = buffer.claim("slow", 1)
    assert buffer.renew([claim]) == [True]
    (taken,) = buffer.claim("w", 1, block_s=10)
    assert taken.ticket.id == "a-0"
    assert buffer.renew([claim]) == [False]


def test_who_lost_a_lease_can_not_disturb_the_new_holder(buffer):
    buffer.submit(make_group("a", 1))
    (old,) = buffer.claim("dead", 1)
    buffer.forfeit("dead")
    (new,) = buffer.claim("w", 1)
    assert buffer.renew([old]) == [False]
    assert buffer.release([old]) == [False]
    assert buffer.fail([old], CRASH, retry=True) == [FailResult.LOST]
    assert buffer.save_progress([Progress(claim=old, episode=make_episode(0))]) == [False]
    assert buffer.renew([new]) == [True]


@pytest.mark.parametrize("first", ["old", "new"])
def test_of_two_copies_exactly_one_is_accepted(buffer, first):
    buffer.submit(make_group("a", 1))
    (old,) = buffer.claim("dead", 1)
    buffer.forfeit("dead")
    (new,) = buffer.claim("w", 1)
    order = [old, new] if first == "old" else [new, old]
    results = [buffer.commit(played([claim]))[0] for claim in order]
    assert results == [CommitResult.ACCEPTED, CommitResult.DUPLICATE]
    counters = buffer.counters()
    assert counters.buffered == 1
    assert counters.drops["duplicate_commits"] == 1
    assert len(buffer.take_groups(5)[0].trials) == 1


def test_a_ticket_that_kills_its_worker_three_times_is_a_dead_letter(buffer):
    buffer.submit(make_group("a", 1))
    for n in range(3):
        assert ids(buffer.claim(f"w{n}", 1)) == ["a-0"]
        buffer.forfeit(f"w{n}")
    assert buffer.claim("w3", 1) == []
    (letter,) = buffer.dead_letters()
    assert letter.ticket == "a-0"
    assert letter.what == "its worker died 3 times"
    counters = buffer.counters()
    assert counters.failed == 1
    assert counters.identity_holds


def test_released_tickets_come_before_new_ones_and_keep_progress_and_attempt(buffer):
    buffer.submit(make_group("a", 3))
    claims = buffer.claim("w", 1)
    buffer.save_progress([Progress(claim=claims[0], episode=make_episode(0))])
    assert buffer.release(claims) == [True]
    assert buffer.counters().queued == 3
    (again,) = buffer.claim("other", 1)
    assert again.ticket.id == "a-0"
    assert again.ticket.attempt == 0
    assert len(again.episodes) == 1


def test_infrastructure_failures_are_retried_within_their_budget(open_buffer):
    buffer = open_buffer(retry_budget=2)
    buffer.submit(make_group("a", 1))
    results = []
    for attempt in range(3):
        (claim,) = buffer.claim("w", 1)
        assert claim.ticket.attempt == attempt
        results += buffer.fail([claim], CRASH, retry=True)
    assert results == [FailResult.RETRY, FailResult.RETRY, FailResult.DEAD]
    counters = buffer.counters()
    assert (counters.failed, counters.retried) == (1, 2)
    assert buffer.dead_letters()[0].what == "env worker died"


def test_a_data_failure_is_not_retried(buffer):
    buffer.submit(make_group("a", 1))
    failure = Failure(kind=FailureKind.DATA, what="no such level")
    assert buffer.fail(buffer.claim("w", 1), failure, retry=False) == [FailResult.DEAD]
    assert buffer.counters().drops["failed_data"] == 1


def test_progress_is_saved_once_and_gone_after_the_commit(buffer):
    buffer.submit(make_group("a", 1))
    (claim,) = buffer.claim("w", 1)
    item = Progress(claim=claim, episode=make_episode(0))
    assert buffer.save_progress([item]) == [True]
    size = buffer.counters().progress_bytes
    assert size > 0
    assert buffer.save_progress([item, item]) == [True, True]
    assert buffer.counters().progress_bytes == size
    buffer.commit(played([claim]))
    assert buffer.counters().progress_bytes == 0


def test_a_trial_of_another_ticket_is_rejected_by_name(buffer):
    buffer.submit(make_group("a"))
    claims = buffer.claim("w", 2)
    with pytest.raises(RejectedError, match="trial a-1: its ticket is 'a-1', its ticket's is 'a-0'"):
        buffer.commit([(claims[0], make_trial(claims[1].ticket))])
    assert buffer.counters().buffered == 0


def test_a_group_takes_no_more_members_than_its_size(buffer):
    buffer.submit(make_group("a", 2))
    with pytest.raises(RejectedError, match=r"a-2 was refused: its member is 2 in a group of 2"):
        buffer.submit([make_ticket("a", 2, 2)])
    with pytest.raises(RejectedError, match=r"late was refused: its group already has 2 members"):
        buffer.submit([msgspec.structs.replace(make_ticket("a", 1, 2), id="late")])
    with pytest.raises(RejectedError, match="its group has size 2, not 3"):
        buffer.submit([make_ticket("a", 2, 3)])


def test_two_runs_share_a_server_without_touching_each_other(server, buffer):
    from agentmem.replay import ReplayBuffer

    with ReplayBuffer(server.url, "another-run") as other:
        buffer.submit(make_group("a"))
        assert other.counters().submitted == 0
        assert other.claim("w", 1) == []


def test_agents_see_the_end_of_the_stream(open_buffer):
    head, agent = open_buffer(), open_buffer()
    assert not agent.draining()
    head.announce()
    assert agent.draining()
    head.announce(end_of_stream=False)
    assert not agent.draining()


def test_cursors_are_remembered(open_buffer):
    first, second = open_buffer(), open_buffer()
    assert second.get_cursor("tasks") is None
    first.set_cursor("tasks", 128)
    assert second.get_cursor("tasks") == "128"

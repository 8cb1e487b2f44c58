"""Bytes: producers wait for the learner, say so, and lose nothing."""

import threading

import pytest

from agentmem.failures import ReplayError
from agentmem.replay import EmbeddedServer, Progress, ReplayBuffer
from agentmem.trajectory import Split
from tests.replay.makers import ids, make_episode, make_group, make_ticket, played, wait_for

TEXT = "x" * 10_000


def test_a_commit_above_the_budget_waits_until_the_learner_frees_bytes(open_buffer):
    agent, learner = (open_buffer(byte_budget=25_000, compression=0) for _ in range(2))
    agent.submit(make_group("a", 2) + make_group("b", 1))
    claims = agent.claim("w", 3)
    agent.commit(played(claims[:2], text=TEXT))
    results = []
    thread = threading.Thread(target=lambda: results.extend(agent.commit(played(claims[2:], text=TEXT))))
    thread.start()
    wait_for(lambda: learner.counters().blocked_producers == 1, "the producer to be blocked")
    assert learner.counters().running == 1
    assert results == []
    (group,) = learner.take_groups(1)
    learner.finish_groups([group.id], "trained")
    thread.join(15)
    assert results == ["accepted"]
    counters = learner.counters()
    assert (counters.buffered, counters.trained, counters.blocked_producers) == (1, 2, 0)
    assert counters.blocked_s > 0
    assert counters.identity_holds


def test_progress_above_the_budget_waits_as_well(open_buffer):
    agent, learner = (open_buffer(byte_budget=15_000, compression=0) for _ in range(2))
    agent.submit(make_group("a", 1) + make_group("b", 1))
    claims = agent.claim("w", 2)
    agent.commit(played(claims[:1], text=TEXT))
    item = Progress(claim=claims[1], episode=make_episode(0, text=TEXT))
    results = []
    thread = threading.Thread(target=lambda: results.extend(agent.save_progress([item])))
    thread.start()
    wait_for(lambda: learner.counters().blocked_producers == 1, "the producer to be blocked")
    learner.finish_groups([g.id for g in learner.take_groups(1)], "trained")
    thread.join(15)
    assert results == [True]


def test_the_budget_never_blocks_what_the_learner_waits_for(open_buffer):
    agent, learner = (open_buffer(byte_budget=15_000, compression=0) for _ in range(2))
    agent.submit(make_group("a", 4))
    claims = agent.claim("w", 4)
    taken = []
    waiting = threading.Thread(target=lambda: taken.extend(learner.take_groups(1, block_s=30)))
    waiting.start()
    assert agent.commit(played(claims, text=TEXT)) == ["accepted"] * 4
    waiting.join(15)
    assert len(taken[0].trials) == 4
    assert agent.counters().budget_overruled > 0


def test_evaluation_does_not_wait_for_the_training_budget(open_buffer):
    buffer = open_buffer(byte_budget=15_000, compression=0)
    buffer.submit(make_group("a", 1))
    buffer.commit(played(buffer.claim("w", 1), text=TEXT))
    buffer.submit([make_ticket("board", 0, split=Split.EVAL)])
    assert buffer.commit(played(buffer.claim("w", 1), text=TEXT)) == ["accepted"]


def test_old_groups_kept_for_replay_give_way_to_new_trials(open_buffer):
    buffer = open_buffer(byte_budget=25_000, compression=0, replay_groups=10)
    for name in "abcd":
        buffer.submit(make_group(name, 1))
        buffer.commit(played(buffer.claim("w", 1), text=TEXT))
        buffer.finish_groups([g.id for g in buffer.take_groups(1)], "trained")
    counters = buffer.counters()
    assert (counters.trained, counters.replay_groups, counters.replay_evicted) == (4, 2, 2)
    assert counters.buffer_bytes <= 25_000


def test_a_producer_that_waits_for_ever_says_why(open_buffer):
    buffer = open_buffer(byte_budget=15_000, compression=0, blocked_limit_s=0.3)
    buffer.submit(make_group("a", 1) + make_group("b", 1))
    claims = buffer.claim("w", 2)
    buffer.commit(played(claims[:1], text=TEXT))
    with pytest.raises(ReplayError, match="blocked on buffer for .* budget of 15000 bytes is used up"):
        buffer.commit(played(claims[1:], text=TEXT))


def test_a_full_server_is_back_pressure_and_nothing_is_lost():
    megabyte = "x" * 1_000_000
    with EmbeddedServer(maxmemory_bytes=32 << 20) as server:
        settings = {"compression": 0, "byte_budget": 1 << 30}
        agent, learner = (ReplayBuffer(server.url, "full", **settings) for _ in range(2))
        groups = [f"g{n}" for n in range(60)]
        for name in groups:
            agent.submit(make_group(name, 1))
        errors = []

        def produce() -> None:
            try:
                while claims := agent.claim("w", 4):
                    agent.commit(played(claims, text=megabyte))
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=produce)
        thread.start()
        wait_for(lambda: learner.counters().blocked_producers == 1, "the producer to be blocked")
        assert 20 <= learner.counters().buffered < 32
        trained, peak = [], 0
        while len(trained) < len(groups):
            taken = learner.take_groups(3, block_s=20)
            assert taken, f"{len(trained)} trained, {learner.counters()}, {errors}"
            learner.finish_groups([g.id for g in taken], "trained")
            trained += [g.id for g in taken]
            peak = max(peak, learner.server.client.info("memory")["used_memory"])
        thread.join(15)
        assert errors == []
        assert sorted(trained) == sorted(groups)
        assert peak < 40 << 20
        counters = learner.counters()
        assert (counters.trained, counters.bytes) == (60, 0)
        assert counters.identity_holds
        assert counters.blocked_s > 0
        assert ids(agent.claim("w", 1)) == []

"""The replay table and the limiters of both tables."""

import random
import threading

import pytest

from agentmem.failures import ConfigError
from agentmem.replay import Limiter, ReplayBuffer, Settings
from tests.replay.makers import make_group, played, wait_for


def fill(buffer, *groups, size=2, version=0):
    for group in groups:
        buffer.submit(make_group(group, size))
    buffer.commit(played(buffer.claim("w", size * len(groups)), version))


def train(buffer, *groups, size=2):
    fill(buffer, *groups, size=size)
    return buffer.finish_groups([g.id for g in buffer.take_groups(len(groups))], "trained")


def test_draws_stay_within_samples_per_insert(open_buffer):
    limiter = Limiter(samples_per_insert=1.5, error_buffer=1.5)
    buffer = open_buffer(replay_groups=10, max_samples=100, replay_limiter=limiter)
    rng = random.Random(0)
    drawn = []
    for n in range(6):
        train(buffer, f"g{n}")
        drawn.append(sum(len(buffer.sample_replay(1, 1, rng)) for _ in range(5)))
    # diff = 1.5 inserts - samples may not fall below 1.5 - 1.5 = 0
    assert [sum(drawn[: n + 1]) for n in range(6)] == [1, 3, 4, 6, 7, 9]
    counters = buffer.counters()
    assert (counters.replay_inserted, counters.replay_sampled, counters.replay_drawn) == (6, 9, 18)
    assert counters.replay_limited == 21
    assert counters.trained == 12


def test_nothing_is_drawn_below_the_least_size(open_buffer):
    buffer = open_buffer(replay_groups=10, replay_limiter=Limiter(min_size=3))
    rng = random.Random(0)
    train(buffer, "a", "b")
    assert buffer.sample_replay(2, 1, rng) == []
    train(buffer, "c")
    assert len(buffer.sample_replay(3, 1, rng)) == 3


def test_groups_beyond_the_limiter_are_freed_instead_of_kept(open_buffer):
    buffer = open_buffer(replay_groups=100, replay_limiter=Limiter(samples_per_insert=1, error_buffer=2))
    for n in range(6):
        train(buffer, f"g{n}")
    counters = buffer.counters()
    assert (counters.replay_groups, counters.replay_inserted, counters.replay_refused) == (3, 3, 3)
    assert (counters.trained, counters.bytes) == (12, 0)
    assert len(buffer.sample_replay(2, 1, random.Random(0))) == 2
    train(buffer, "h")
    assert buffer.counters().replay_inserted == 4


def test_the_limiter_holds_when_learners_race(open_buffer):
    options = {"replay_groups": 8, "max_samples": 3}
    first, second = open_buffer(**options), open_buffer(**options)
    train(first, *[f"g{n}" for n in range(8)], size=1)
    drawn = []

    def draw(buffer, seed):
        rng = random.Random(seed)
        for _ in range(20):
            drawn.extend(g.id for g in buffer.sample_replay(2, 1, rng))

    threads = [threading.Thread(target=draw, args=(b, n)) for n, b in enumerate((first, second))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    counters = first.counters()
    assert len(drawn) == counters.replay_sampled == 24
    assert max(map(drawn.count, drawn)) == 3
    assert (counters.replay_groups, counters.replay_bytes) == (0, 0)


def test_groups_with_larger_advantages_are_preferred_if_asked_for(open_buffer):
    buffer = open_buffer(replay_groups=2, max_samples=1000, advantage_exponent=1.0)
    plain = open_buffer(replay_groups=2, max_samples=1000)
    train(buffer, "large", "small")
    assert buffer.set_priorities({"large": 0.8, "small": 0.2, "unknown": 1.0}) == 2
    rng = random.Random(1)
    drawn = [buffer.sample_replay(1, 0, rng)[0].id for _ in range(300)]
    assert 215 <= drawn.count("large") <= 265  # expected 0.8 of 300
    drawn = [plain.sample_replay(1, 0, rng)[0].id for _ in range(300)]
    assert 120 <= drawn.count("large") <= 180


def test_priorities_may_come_before_the_group_is_finished_and_default_to_the_mean(open_buffer):
    buffer = open_buffer(replay_groups=3, max_samples=1000, advantage_exponent=1.0)
    fill(buffer, "a", "b", "c")
    groups = buffer.take_groups(3)
    buffer.set_priorities({"a": 0.6, "b": 0.0})
    buffer.finish_groups([g.id for g in groups], "trained")
    rng = random.Random(2)
    drawn = [buffer.sample_replay(1, 0, rng)[0].id for _ in range(300)]
    assert drawn.count("b") < 10
    assert 170 <= drawn.count("a") <= 230  # expected 0.6 against 0.3 of the group without a priority


@pytest.mark.parametrize("bad", [-0.1, float("nan"), float("inf")])
def test_a_priority_that_is_no_weight_is_refused(buffer, bad):
    with pytest.raises(ValueError, match="group g: its priority is"):
        buffer.set_priorities({"g": bad})


def test_commits_wait_while_too_many_groups_are_ready(open_buffer):
    limiter = Limiter(error_buffer=1)  # at most 2 ready groups
    agent, learner = (open_buffer(online_limiter=limiter) for _ in range(2))
    for name in "abcd":
        agent.submit(make_group(name, 1))
    claims, results = agent.claim("w", 4), []
    thread = threading.Thread(target=lambda: results.extend(agent.commit(played(claims))))
    thread.start()
    wait_for(lambda: learner.counters().blocked_producers == 1, "the producer to be held back")
    counters = learner.counters()
    assert (counters.groups_ready, counters.buffered, counters.running) == (2, 2, 2)
    assert counters.online_limited > 0
    trained = []
    while len(trained) < 4:
        groups = learner.take_groups(1, block_s=20)
        trained += [g.id for g in groups]
        learner.finish_groups(trained[-1:], "trained")
    thread.join(15)
    assert results == ["accepted"] * 4
    assert trained == list("abcd")
    assert learner.counters().identity_holds


def test_a_learner_that_waits_overrules_the_limiter_of_the_online_table(open_buffer):
    limiter = Limiter(error_buffer=1)
    agent, learner = (open_buffer(online_limiter=limiter) for _ in range(2))
    for name in "abcd":
        agent.submit(make_group(name, 1))
    taken = []
    waiting = threading.Thread(target=lambda: taken.extend(learner.take_groups(4, at_least=4, block_s=30)))
    waiting.start()
    assert agent.commit(played(agent.claim("w", 4))) == ["accepted"] * 4
    waiting.join(15)
    assert len(taken) == 4


def test_the_online_table_gives_nothing_below_its_least_size_until_the_end_of_the_stream(open_buffer):
    buffer = open_buffer(online_limiter=Limiter(min_size=3))
    fill(buffer, "a", "b")
    assert buffer.take_groups(2) == []
    buffer.announce()
    assert [g.id for g in buffer.take_groups(2)] == ["a", "b"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Limiter(samples_per_insert=0), "samples_per_insert is 0"),
        (lambda: Limiter(samples_per_insert=4, error_buffer=2), "error_buffer is 2"),
        (lambda: Limiter(min_size=0), "min_size is 0"),
        (lambda: Settings(online_limiter=Limiter(samples_per_insert=2)), "gives each group once"),
        (lambda: Settings(staleness_decay=0), "staleness_decay is 0"),
        (lambda: Settings(advantage_exponent=-1), "advantage_exponent is -1"),
    ],
)
def test_limits_that_can_not_work_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_settings_with_limiters_travel_to_other_processes(server):
    import pickle

    settings = pickle.loads(pickle.dumps(Settings(replay_limiter=Limiter(error_buffer=2))))
    with ReplayBuffer(server.url, "travelled", settings=settings) as buffer:
        assert buffer.settings.replay_limiter.most == 3

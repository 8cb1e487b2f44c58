"""Processes that die between any two Redis commands: nothing is lost, nothing counts twice, no byte leaks."""

import itertools

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentmem.failures import Failure, FailureKind
from agentmem.replay import EmbeddedServer, Progress, ReplayBuffer
from agentmem.trajectory import Split
from tests.replay.fuse import Died, Fuse
from tests.replay.makers import make_episode, make_group, make_ticket, make_trial, played

CRASH = Failure(kind=FailureKind.INFRASTRUCTURE, what="env worker died")
LARGE = "x" * 40_000
"""Sent in a transaction of its own, not as a script's argument."""
_runs = itertools.count()
_server: list[EmbeddedServer] = []


def server_url():
    if not _server:
        _server.append(EmbeddedServer())
        _server[0].start()
    return _server[0].url


def teardown_module():
    for server in _server:
        server.stop()


def check_keys(buffer):
    """What the keys hold is what the counters say; no value is left that nobody knows of."""
    client, prefix = buffer.server.client, buffer.keys.prefix
    keys = [key.decode()[len(prefix) :] for key in client.keys(prefix + "*")]
    c = buffer.counters()
    assert c.identity_holds, c
    stored = sum(client.strlen(prefix + key) for key in keys if key.startswith("d:"))
    assert stored == c.bytes + c.replay_bytes
    progress = [client.hgetall(prefix + key) for key in keys if key.startswith("p:")]
    assert sum(int(p[b"bytes"]) for p in progress) == c.progress_bytes
    assert sum(len(v) for p in progress for k, v in p.items() if k != b"bytes") == c.progress_bytes
    assert not [key for key in keys if key.startswith("s:")]
    places = [client.smembers(prefix + "open")]
    places += [set(client.zrange(prefix + name, 0, -1)) for name in ("ready", "taken", "held", "replay")]
    together = [group.decode() for place in places for group in place]
    assert sorted(together) == sorted(key[2:] for key in keys if key.startswith("g:"))
    assert len(together) == len(set(together))
    return c


def play_all(buffer, outcome="trained"):
    """Let healthy processes take over and finish everything; returns the trained ticket ids."""
    for consumer in ("w", "w0", "w1"):
        buffer.forfeit(consumer)
    for consumer in ("learner", "l0"):
        buffer.recover_groups(consumer)
    done = []
    while claims := buffer.claim("last", 10):
        buffer.commit(played(claims))
    while groups := buffer.take_groups(10):
        done += [t.ticket for g in groups for t in g.trials]
        buffer.finish_groups([g.id for g in groups], outcome)
    buffer.settle(10**9)
    return done


def all_tickets():
    return make_group("a", 2) + make_group("b", 1) + [make_ticket("board", split=Split.EVAL)]


def a_life(buffer):
    """All that a run does with its buffer, at least once."""
    buffer.submit(all_tickets())
    claims = buffer.claim("w", 4)
    buffer.save_progress([Progress(claim=c, episode=make_episode(0, text=LARGE)) for c in claims])
    buffer.renew(claims)
    buffer.release(claims[1:2])
    buffer.fail(claims[2:3], CRASH, retry=True)
    buffer.commit(played([claims[0], claims[3]], text=LARGE))
    buffer.commit(played(buffer.claim("w", 4)))
    buffer.take_eval("board")
    buffer.drop_eval("board")
    groups = buffer.take_groups(2, at_least=2)
    buffer.set_priorities({g.id: 1.0 for g in groups})
    for group in groups:
        cursor = buffer.finish_groups([group.id], "trained", hold=True)
    buffer.set_cursor("checkpoint", cursor)
    buffer.settle(cursor - 1)
    buffer.rewind(cursor - 1)


def _length_of_a_life():
    with ReplayBuffer(server_url(), f"life{next(_runs)}", replay_groups=1) as buffer:
        fuse = Fuse(buffer)
        a_life(buffer)
        return fuse.sent


def test_a_death_after_any_command_of_a_run_loses_and_doubles_nothing():
    length = _length_of_a_life()
    assert length > 25
    for k in range(length + 1):
        run = f"dies{next(_runs)}"
        with ReplayBuffer(server_url(), run, replay_groups=1) as victim:
            Fuse(victim).arm(k)
            if k < length:
                with pytest.raises(Died):
                    a_life(victim)
            else:
                a_life(victim)
        with ReplayBuffer(server_url(), run, replay_groups=1) as restarted:
            check_keys(restarted)
            restarted.rewind(0)  # nothing was checkpointed but what the test settled
            restarted.submit(
                make_group("a", 2) + make_group("b", 1) + [make_ticket("board", split=Split.EVAL)]
            )
            play_all(restarted)
            c = check_keys(restarted)
            assert (c.submitted, c.trained, c.buffered, c.failed) == (3, 3, 0, 0), k
            restarted.drop_eval("board")
            assert restarted.counters().bytes == 0, k


class CrashMachine(RuleBasedStateMachine):
    """Each call is made by a client that may die after some of its commands; another then goes on."""

    @initialize(replay_groups=st.sampled_from([0, 2]))
    def start(self, replay_groups):
        self.run, self.options = f"crash{next(_runs)}", {"replay_groups": replay_groups, "retry_budget": 100}
        self.options["max_kills"] = 1000
        self.buffer = ReplayBuffer(server_url(), self.run, **self.options)
        self.victim = ReplayBuffer(server_url(), self.run, **self.options)
        self.fuse = Fuse(self.victim)
        self.tickets, self.claims, self.taken, self.groups = {}, [], [], itertools.count()

    def attempt(self, work, k):
        """What `work` returned, None if its process died (maybe after its last command)."""
        self.fuse.arm(k) if k is not None else self.fuse.disarm()
        try:
            result = work(self.victim)
        except Died:
            return None
        return None if k is not None and self.fuse.burnt else result

    deaths = st.one_of(st.none(), st.integers(0, 5))

    @rule(size=st.integers(1, 3), split=st.sampled_from([Split.TRAIN, Split.TRAIN, Split.EVAL]), k=deaths)
    def submit(self, size, split, k):
        group = f"g{next(self.groups)}"
        tickets = [make_ticket(group, m, size, split) for m in range(size)]
        if self.attempt(lambda b: b.submit(tickets), k) is None:
            self.buffer.submit(tickets)  # the restarted driver does it again
        self.tickets |= {t.id: t for t in tickets}

    @rule(worker=st.sampled_from(["w0", "w1"]), count=st.integers(1, 3), k=deaths)
    def claim(self, worker, count, k):
        claims = self.attempt(lambda b: b.claim(worker, count), k)
        if claims is None:
            self.buffer.forfeit(worker)
        else:
            self.claims += claims

    def some_claims(self, data):
        return data.draw(st.lists(st.sampled_from(self.claims), min_size=1, max_size=3))

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), text=st.sampled_from(["up", LARGE]), k=deaths)
    def save(self, data, text, k):
        items = [Progress(claim=c, episode=make_episode(0, text=text)) for c in self.some_claims(data)]
        self.attempt(lambda b: b.save_progress(items), k)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), text=st.sampled_from(["up", LARGE]), k=deaths)
    def commit(self, data, text, k):
        items = [(c, make_trial(c.ticket, text=text)) for c in self.some_claims(data)]
        self.attempt(lambda b: b.commit(items), k)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), how=st.sampled_from(["fail", "release"]), k=deaths)
    def give_up(self, data, how, k):
        claims = self.some_claims(data)
        if how == "fail":
            self.attempt(lambda b: b.fail(claims, CRASH, retry=True), k)
        else:
            self.attempt(lambda b: b.release(claims), k)

    @rule(n=st.integers(1, 3), k=deaths)
    def take(self, n, k):
        groups = self.attempt(lambda b: b.take_groups(n, consumer="l0"), k)
        self.learner_restarts() if groups is None else self.taken.extend(g.id for g in groups)

    def learner_restarts(self):
        self.buffer.recover_groups("l0")
        self.taken.clear()

    @precondition(lambda self: self.taken)
    @rule(outcome=st.sampled_from(["trained", "filtered", "expired"]), hold=st.booleans(), k=deaths)
    def finish(self, outcome, hold, k):
        group = self.taken.pop()
        if self.attempt(lambda b: b.finish_groups([group], outcome, hold=hold), k) is None:
            self.learner_restarts()

    @rule(back=st.booleans(), cursor=st.integers(0, 6), k=deaths)
    def checkpoint_or_resume(self, back, cursor, k):
        self.attempt(lambda b: b.rewind(cursor) if back else b.settle(cursor), k)

    @rule(k=deaths, data=st.data())
    def replay(self, k, data):
        rng = data.draw(st.randoms(use_true_random=False))
        self.attempt(lambda b: b.sample_replay(2, 1, rng), k)

    @invariant()
    def all_adds_up(self):
        c = check_keys(self.buffer)
        train = sum(t.task.split is Split.TRAIN for t in self.tickets.values())
        assert (c.submitted, c.eval_submitted) == (train, len(self.tickets) - train)
        assert c.failed == c.dead_letters == 0

    def teardown(self):
        if not hasattr(self, "buffer"):
            return
        self.buffer.rewind(0)
        play_all(self.buffer)
        c = check_keys(self.buffer)
        assert c.submitted == c.trained + c.filtered + c.expired
        assert c.eval_submitted == c.eval_done
        self.victim.close()
        self.buffer.close()


TestCrashes = CrashMachine.TestCase
TestCrashes.settings = settings(
    max_examples=30, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)

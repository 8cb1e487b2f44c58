"""The accounting identity and exactly-once, over random orders of events with deaths in between.

The machine drives a buffer on a real server next to a model that knows what each call must have done. Leases
end by `forfeit` and `recover_groups`, so time plays no part.
"""

import itertools

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentmem.failures import Failure, FailureKind
from agentmem.replay import EmbeddedServer, FailResult, Progress, ReplayBuffer
from agentmem.trajectory import Split
from tests.replay.makers import make_episode, make_ticket, make_trial

WORKERS = st.sampled_from(["w0", "w1", "w2"])
LEARNERS = st.sampled_from(["l0", "l1"])
CRASH = Failure(kind=FailureKind.INFRASTRUCTURE, what="env worker died")
_runs = itertools.count()
_server: list[EmbeddedServer] = []


def server_url() -> str:
    if not _server:
        _server.append(EmbeddedServer())
        _server[0].start()
    return _server[0].url


def teardown_module():
    for server in _server:
        server.stop()


class BufferMachine(RuleBasedStateMachine):
    """`claims` holds every claim ever given, so stale ones act, too."""

    @initialize(min_group=st.integers(1, 2), replay_groups=st.sampled_from([0, 2]))
    def start(self, min_group, replay_groups):
        self.buffer = ReplayBuffer(
            server_url(),
            f"machine{next(_runs)}",
            min_group=min_group,
            replay_groups=replay_groups,
            retry_budget=1,
            max_kills=2,
        )
        self.tickets, self.claims, self.taken = {}, [], {}
        self.accepted, self.consumed, self.held, self.groups = set(), {}, {}, itertools.count()

    @rule(size=st.integers(1, 3), split=st.sampled_from([Split.TRAIN, Split.TRAIN, Split.EVAL]))
    def submit(self, size, split):
        group = f"g{next(self.groups)}"
        tickets = [make_ticket(group, m, size, split) for m in range(size)]
        assert self.buffer.submit(tickets) == size
        self.tickets |= {t.id: t for t in tickets}

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def submit_again(self, data):
        some = data.draw(st.lists(st.sampled_from(sorted(self.tickets)), max_size=3))
        assert self.buffer.submit([self.tickets[i] for i in some]) == 0

    @rule(worker=WORKERS, count=st.integers(1, 3))
    def claim(self, worker, count):
        claims = self.buffer.claim(worker, count)
        assert not {c.ticket.id for c in claims} & self.accepted
        self.claims += claims

    @rule(worker=WORKERS)
    def worker_dies(self, worker):
        self.buffer.forfeit(worker)

    def some_claims(self, data):
        return data.draw(st.lists(st.sampled_from(self.claims), min_size=1, max_size=3))

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), episode=st.integers(0, 2))
    def save(self, data, episode):
        items = [Progress(claim=c, episode=make_episode(episode)) for c in self.some_claims(data)]
        saved = self.buffer.save_progress(items)
        for item, kept in zip(items, saved, strict=True):
            assert not (kept and item.claim.ticket.id in self.accepted)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def commit(self, data):
        claims = self.some_claims(data)
        dead = {letter.ticket for letter in self.buffer.dead_letters()}
        results = self.buffer.commit([(c, make_trial(c.ticket)) for c in claims])
        for claim, result in zip(claims, results, strict=True):
            ticket = claim.ticket.id
            assert (result == "accepted") == (ticket not in self.accepted | dead)
            self.accepted |= {ticket} - dead

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), retry=st.booleans())
    def fail(self, data, retry):
        claims = self.some_claims(data)
        for claim, result in zip(claims, self.buffer.fail(claims, CRASH, retry=retry), strict=True):
            assert result is FailResult.LOST or claim.ticket.id not in self.accepted

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def release(self, data):
        self.buffer.release(self.some_claims(data))

    @rule(learner=LEARNERS, n=st.integers(1, 3))
    def take(self, learner, n):
        for group in self.buffer.take_groups(n, consumer=learner):
            assert group.id not in self.consumed
            assert {t.ticket for t in group.trials} <= self.accepted
            assert all(t.task.split is Split.TRAIN for t in group.trials)
            self.taken[group.id] = (learner, [t.ticket for t in group.trials])

    @precondition(lambda self: self.taken)
    @rule(data=st.data(), outcome=st.sampled_from(["trained", "filtered"]), hold=st.booleans())
    def finish(self, data, outcome, hold):
        group = data.draw(st.sampled_from(sorted(self.taken)))
        cursor = self.buffer.finish_groups([group], outcome, hold=hold)
        _, tickets = self.taken.pop(group)
        self.consumed[group] = (outcome, tickets)
        if hold:
            self.held[group] = cursor

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def give_back(self, data):
        group = data.draw(st.sampled_from(sorted(self.taken)))
        assert self.buffer.return_groups([group]) == 1
        del self.taken[group]

    @rule(learner=LEARNERS)
    def learner_dies(self, learner):
        mine = [g for g, (owner, _) in self.taken.items() if owner == learner]
        assert self.buffer.recover_groups(learner) == len(mine)
        for group in mine:
            del self.taken[group]

    @precondition(lambda self: self.held)
    @rule(data=st.data(), back=st.booleans())
    def checkpoint_or_resume(self, data, back):
        cursor = data.draw(st.sampled_from(sorted(self.held.values())))
        if back:
            for group in [g for g, c in self.held.items() if c > cursor]:
                del self.held[group], self.consumed[group]
            self.buffer.rewind(cursor)
        else:
            self.held = {g: c for g, c in self.held.items() if c > cursor}
            self.buffer.settle(cursor)

    @invariant()
    def the_identity_holds(self):
        c = self.buffer.counters()
        assert c.identity_holds, c
        train = [t for t in self.tickets.values() if t.task.split is Split.TRAIN]
        assert c.submitted == len(train)
        assert c.eval_submitted == len(self.tickets) - len(train)
        for outcome in ("trained", "filtered"):
            assert getattr(c, outcome) == sum(len(t) for o, t in self.consumed.values() if o == outcome)
        stored = {i for i in self.accepted if self.tickets[i].task.split is Split.TRAIN}
        assert len(stored) == c.buffered + c.trained + c.filtered + c.drops.get("group_below_min", 0)
        assert c.groups_held == len(self.held)
        assert c.groups_taken == len(self.taken)

    def teardown(self):
        """Play and train the rest: nothing is left over, nothing is trained twice, every byte is freed."""
        if not hasattr(self, "buffer"):
            return
        for learner in ("l0", "l1"):
            self.buffer.recover_groups(learner)
        for worker in ("w0", "w1", "w2"):
            self.buffer.forfeit(worker)
        while claims := self.buffer.claim("last", 10):
            self.buffer.commit([(c, make_trial(c.ticket)) for c in claims])
        while groups := self.buffer.take_groups(10):
            for group in groups:
                assert group.id not in self.consumed
                self.consumed[group.id] = ("trained", [t.ticket for t in group.trials])
            self.buffer.finish_groups([g.id for g in groups], "trained")
        self.buffer.settle(10**9)
        c = self.buffer.counters()
        assert c.identity_holds
        assert c.queued == c.running == c.buffered == c.progress_bytes == 0
        trained = [t for _, tickets in self.consumed.values() for t in tickets]
        assert len(trained) == len(set(trained)) == c.trained + c.filtered
        for batch in {t.task.group for t in self.tickets.values() if t.task.split is Split.EVAL}:
            self.buffer.drop_eval(batch)
        assert self.buffer.counters().bytes == 0
        self.buffer.close()


TestIdentity = BufferMachine.TestCase
TestIdentity.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)

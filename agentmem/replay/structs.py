"""What goes into the buffer and comes out of it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from agentmem.failures import AgentMemError
from agentmem.trajectory import Episode, Ticket, Trial, Turn


class RejectedError(AgentMemError):
    """An insert breaks an invariant; the message names it and the trial or ticket, which wasn't inserted."""


class CommitResult(StrEnum):
    """What became of a commit."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """The ticket had already been committed, failed for good, or withdrawn; counted and dropped."""


class FailResult(StrEnum):
    """What became of a failed claim."""

    RETRY = "retry"
    """Queued again; its progress is kept."""
    DEAD = "dead"
    """Its budget is spent or retrying is of no use: a dead letter, and its group goes on without it."""
    LOST = "lost"
    """The claim no longer held the ticket: nothing was done."""


class Outcome(StrEnum):
    """How a group was consumed."""

    TRAINED = "trained"
    FILTERED = "filtered"
    """Consumed without a gradient, by a stated filter."""
    EXPIRED = "expired"
    """Dropped by the hard staleness limit."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The right to play a ticket, until its lease runs out. `ticket.attempt` counts the attempts before."""

    ticket: Ticket
    entry_id: str
    consumer: str
    episodes: tuple[Episode, ...] = ()
    """Progress of an earlier attempt: play goes on after the last of these."""
    reflections: tuple[Turn, ...] = ()
    advice: tuple[Turn, ...] = ()
    wall_s: float = 0.0


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A finished episode of a claimed trial, with the turns played since the previous save."""

    claim: Claim
    episode: Episode
    reflections: tuple[Turn, ...] = ()
    advice: tuple[Turn, ...] = ()
    wall_s: float = 0.0


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A complete group: the stored trials of one task, ordered by member."""

    id: str
    size: int
    """Members asked for; `len(trials)` of them are there, the others failed."""
    sequence: int
    """Order of submission within the run."""
    trials: tuple[Trial, ...]
    payload_bytes: int
    versions: tuple[int, int] | None
    """Oldest and newest weight version that sampled a token of it; None if no trained policy played."""


class EvalStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Where an evaluation batch stands."""

    submitted: int
    done: int
    failed: int

    @property
    def complete(self) -> bool:
        """Nothing of it is queued or running."""
        return self.done + self.failed >= self.submitted


class TipStats(msgspec.Struct, frozen=True, kw_only=True):
    """The books of tips of one namespace."""

    tasks: int = 0
    """Books."""
    tips: int = 0
    """Entries held."""
    bytes: int = 0
    """Of these."""
    added: int = 0
    """Entries that ever entered a book."""
    duplicates: int = 0
    """Not added, since their like was held."""
    dropped: int = 0
    """Gone because of a bound."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket that failed for good, and why."""

    ticket: str
    owner: str
    """Its group, or its evaluation batch."""
    eval: bool
    kind: str
    what: str
    where: str
    attempts: int
    at_ms: int


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """One atomic look at a run. Tickets count in trials; evaluation has counters of its own."""

    submitted: int = 0
    queued: int = 0
    running: int = 0
    """Under a lease (also one that has run out and wasn't taken over yet)."""
    buffered: int = 0
    trained: int = 0
    filtered: int = 0
    failed: int = 0
    expired: int = 0

    eval_submitted: int = 0
    eval_queued: int = 0
    eval_running: int = 0
    eval_done: int = 0
    eval_failed: int = 0

    groups_open: int = 0
    groups_ready: int = 0
    groups_taken: int = 0
    groups_held: int = 0
    """Consumed since the last checkpoint, their trials still there."""

    bytes: int = 0
    """Stored trials: buffered, held, and results of evaluations."""
    progress_bytes: int = 0
    replay_bytes: int = 0
    replay_groups: int = 0
    replay_drawn: int = 0
    """Trials drawn from the replay table."""
    replay_inserted: int = 0
    """Groups that entered the replay table, and below: draws of groups."""
    replay_sampled: int = 0
    replay_evicted: int = 0
    replay_refused: int = 0
    """Trained groups that its limiter didn't let in."""
    replay_limited: int = 0
    """Draws of groups that its limiter didn't give."""
    online_limited: int = 0
    """Commits that its limiter made wait."""
    quarantined_bytes: int = 0
    """Payloads that can't be read, kept for a look; the oldest leave."""

    tips: int = 0
    """Entries in the books of tips, of all namespaces."""
    tip_bytes: int = 0
    """Apart from the byte budget, within a bound of their own (`Settings.tip_bytes`)."""

    blocked_s: float = 0.0
    """Time that producers waited for bytes, all added."""
    blocked_producers: int = 0
    """Producers that wait for bytes now."""
    budget_overruled: int = 0
    """Inserts above the byte budget, let in because the learner was waiting for them."""

    retried: int = 0
    leases_expired: int = 0
    group_leases_expired: int = 0
    dead_letters: int = 0
    drops: dict[str, int] = {}
    """By reason: duplicate_commits, stale, group_below_min, corrupt, failed_<kind>, ..."""
    expired_by_env: dict[str, int] = {}
    """Expired trials by environment."""
    expired_by_length: dict[int, int] = {}
    """Expired trials by sampled tokens: key 64 counts those with 33 to 64."""

    @property
    def identity_holds(self) -> bool:
        """submitted = queued + running + buffered + trained + filtered + failed + expired, and eval's."""
        gone = self.trained + self.filtered + self.failed + self.expired
        return (
            self.submitted == self.queued + self.running + self.buffered + gone
            and self.eval_submitted
            == self.eval_queued + self.eval_running + self.eval_done + self.eval_failed
        )

    @property
    def buffer_bytes(self) -> int:
        """All that counts against the byte budget."""
        return self.bytes + self.progress_bytes + self.replay_bytes + self.quarantined_bytes

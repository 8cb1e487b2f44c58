"""The tickets' side: submit, claim under a lease, save progress, commit, fail.

Invariants: a ticket id enters once, however often it is submitted. A live ticket has exactly one stream
entry; whoever commits it first ends its life (entry, progress and attempts go in the same script as the trial
comes). A claim is valid while its entry and its attempt are the ticket's current ones: a holder whose lease
ran out can no longer renew, release, fail or save, but its finished trial is still welcome if nobody was
faster.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from agentmem.failures import Failure
from agentmem.replay import lua
from agentmem.replay.codec import EpisodeRecord, decode_record, encode_record, join, split
from agentmem.replay.connect import MAX_BLOCK_S
from agentmem.replay.structs import Claim, CommitResult, FailResult, Progress, RejectedError
from agentmem.replay.table import Insert, Table
from agentmem.replay.wire import Arg
from agentmem.trajectory import SchemaError, Split, Ticket, Trial
from agentmem.trajectory import codec as trajectory

_LETTER = {Split.TRAIN: "t", Split.EVAL: "e"}
_SUBMIT_AT_ONCE = 500


def _fence(claims: Sequence[Claim]) -> list[Arg]:
    return [x for c in claims for x in (c.ticket.id, c.entry_id, c.ticket.attempt)]


class TicketTable(Table):
    """Tickets and leases. Every method takes lists and makes one round trip per batch."""

    def submit(self, tickets: Sequence[Ticket], *, batch: str = "") -> int:
        """Queue tickets; returns how many were new. A known id is left alone: submitting again is harmless.

        A training ticket's group is `task.group` (its own id if empty), complete after `group_size` members.
        An evaluation ticket belongs to `batch` (`task.group`, or "eval", if empty). Raises RejectedError.
        """
        new = 0
        for start in range(0, len(tickets), _SUBMIT_AT_ONCE):
            part = tickets[start : start + _SUBMIT_AT_ONCE]
            args: list[Arg] = []
            for ticket in part:
                if not 0 <= ticket.member < ticket.group_size:
                    raise RejectedError(
                        f"ticket {ticket.id} was refused: its member is {ticket.member} in a group of "
                        f"{ticket.group_size}"
                    )
                if ticket.task.split is Split.EVAL:
                    owner = batch or ticket.task.group or "eval"
                else:
                    owner = ticket.task.group or ticket.id
                args += [ticket.id, owner, ticket.group_size, _LETTER[ticket.task.split]]
                args.append(trajectory.encode(ticket))
            replies = self._insert_when_room(lua.SUBMIT, args)
            for ticket, reply in zip(part, replies, strict=True):
                if isinstance(reply, bytes):
                    raise RejectedError(f"ticket {ticket.id} was refused: {reply.decode()}")
                new += reply
        return new

    def claim(self, consumer: str, count: int = 1, block_s: float = 0.0) -> list[Claim]:
        """Up to `count` claims: evaluations, then tickets queued again, then new ones, oldest first.

        Leases that ran out are taken over, with the progress of the trial. With nothing to claim it waits up
        to `block_s` for the first ticket. Each claim lasts `lease_s` unless renewed.
        """
        s = self.settings
        end = time.monotonic() + block_s
        streams = [self.keys(name) for name in ("eval", "again", "train")]
        while True:
            found, last = self._run(
                lua.CLAIM, consumer, count, max(1, int(1000 * s.lease_s)), s.max_kills, s.min_group
            )
            if found:
                return [self._claim(consumer, *item) for item in found]
            left = end - time.monotonic()
            if left <= 0:
                return []
            wait_ms = max(1, int(1000 * min(left, MAX_BLOCK_S, s.lease_s / 4)))
            # Anything newer than what the script saw wakes us; the next round takes it, not this read.
            self.server.command("XREAD", "COUNT", 1, "BLOCK", wait_ms, "STREAMS", *streams, *last)

    def _claim(
        self, consumer: str, letter: bytes, entry: bytes, data: bytes, attempt: int, progress: list[bytes]
    ) -> Claim:
        ticket = msgspec.structs.replace(trajectory.decode(data, Ticket), attempt=attempt)
        chunks: dict[int, dict[int, bytes]] = {}
        for field, value in zip(progress[::2], progress[1::2], strict=True):
            if field != b"bytes":
                episode, chunk = field.split(b":")
                chunks.setdefault(int(episode), {})[int(chunk)] = value
        records: list[EpisodeRecord] = []
        for k in sorted(chunks):
            if k != len(records):
                break  # a gap: what comes after it can't be continued from
            try:
                payload = join([chunks[k].get(i) for i in range(max(chunks[k]) + 1)])
                records.append(decode_record(self.codec.decompress(payload)))
            except SchemaError:
                break  # damaged progress is played again
        return Claim(
            ticket=ticket,
            entry_id=entry.decode(),
            consumer=consumer,
            episodes=tuple(r.episode for r in records),
            reflections=tuple(t for r in records for t in r.reflections),
            advice=tuple(t for r in records for t in r.advice),
            wall_s=sum(r.wall_s for r in records),
        )

    def renew(self, claims: Sequence[Claim]) -> list[bool]:
        """Start the leases anew; False for a claim that no longer holds its ticket (stop playing it)."""
        if not claims:
            return []
        return [bool(r) for r in self._run(lua.RENEW, claims[0].consumer, *_fence(claims))]

    def release(self, claims: Sequence[Claim]) -> list[bool]:
        """Give tickets back, with their progress, ahead of the unclaimed ones. Costs them no attempt."""
        return [bool(r) for r in self._run(lua.RELEASE, *_fence(claims))] if claims else []

    def forfeit(self, consumer: str) -> int:
        """Declare a consumer dead: its leases count as expired at once. Returns their number."""
        return int(self._run(lua.FORFEIT, consumer))

    def recall(self) -> int:
        """Declare all consumers dead, by no fault of their tickets: these are queued again, with their
        progress and at no cost of attempts. A driver's first call, before it starts agents; returns their
        number."""
        return int(self._run(lua.RECALL))

    def fail(self, claims: Sequence[Claim], failure: Failure, *, retry: bool) -> list[FailResult]:
        """These trials can't be finished; with `retry` they are queued again, within their budget."""
        if not claims:
            return []
        s = self.settings
        head: list[Arg] = [
            int(retry),
            s.retry_budget,
            s.min_group,
            failure.kind.value,
            failure.what,
            failure.where,
        ]
        replies = self._run(lua.FAIL, *head, *_fence(claims))
        return [(FailResult.LOST, FailResult.RETRY, FailResult.DEAD)[r] for r in replies]

    def save_progress(self, items: Sequence[Progress]) -> list[bool]:
        """Keep finished episodes of running trials, so that another actor can go on after them.

        Saving an episode again changes nothing. False for a claim that no longer holds its ticket. Waits
        while the byte budget is used up.
        """
        if not items:
            return []
        rows = []
        for item in items:
            schema = trajectory.version_of(item.advice)
            record = EpisodeRecord(schema, item.episode, item.reflections, item.advice, item.wall_s)
            try:
                payload = self.codec.compress(encode_record(record))
            except SchemaError as error:
                where = f"trial {item.claim.ticket.id}, episode {item.episode.index}"
                raise RejectedError(f"{where}: {error}") from error
            chunks = split(payload)
            head = [*_fence([item.claim]), item.episode.index, len(chunks), len(payload)]
            rows.append(Insert(head, chunks, len(payload), item.claim.ticket.task.split is Split.EVAL))
        return [bool(r) for r in self._insert(lua.PROGRESS, [], rows, items[0].claim.consumer)]

    def commit(self, items: Sequence[tuple[Claim, Trial]]) -> list[CommitResult]:
        """Store finished trials; each ticket is stored once. Waits while the byte budget is used up.

        Evaluation trials go to their batch, never to a training table, and don't wait for the budget. Raises
        RejectedError, before anything is stored, for a trial that isn't its ticket's or that failed (`fail`
        is for those).
        """
        if not items:
            return []
        rows = []
        for claim, trial in items:
            _check(claim.ticket, trial)
            payload = self._packed(trial)
            chunks = split(payload)
            low, high = trial.version_range() or ("", "")
            head: list[Arg] = [trial.ticket, _LETTER[trial.task.split], low, high, len(payload), len(chunks)]
            head += [sum(trial.token_counts().values()), trial.task.environment]
            rows.append(Insert(head, chunks, len(payload), trial.task.split is Split.EVAL))
        first: list[Arg] = [self.settings.min_group, self.settings.online_limiter.most]
        replies = self._insert(lua.COMMIT, first, rows, items[0][0].consumer)
        for (_, trial), reply in zip(items, replies, strict=True):
            if reply == 3:
                raise RejectedError(
                    f"trial {trial.ticket} has split {trial.task.split}, its ticket has another"
                )
        return [CommitResult.ACCEPTED if r == 1 else CommitResult.DUPLICATE for r in replies]

    def _packed(self, trial: Trial) -> bytes:
        try:
            return self.codec.pack(trial)
        except SchemaError as error:
            raise RejectedError(f"trial {trial.ticket}: {error}") from error


def _check(ticket: Ticket, trial: Trial) -> None:
    """Raise RejectedError unless `trial` is a finished play of `ticket`."""
    for name, expected, found in (
        ("ticket", ticket.id, trial.ticket),
        ("task", ticket.task, trial.task),
        ("member", ticket.member, trial.member),
        ("group_size", ticket.group_size, trial.group_size),
    ):
        if expected != found:
            raise RejectedError(
                f"trial {trial.ticket}: its {name} is {found!r}, its ticket's is {expected!r}"
            )
    if not trial.valid:
        why = trial.failure.what if trial.failure else "an episode has no reward"
        raise RejectedError(f"trial {trial.ticket} failed ({why}): report it with fail(), don't commit it")

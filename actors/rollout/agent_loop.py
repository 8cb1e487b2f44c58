"""What an agent does, without Ray: keep a number of trials in flight, between the buffer and the players.

Promises:
- Every claim ends in exactly one of: committed, failed (with or without a retry), given back, or lost
  (another actor holds the ticket by now). A place is free again when that is written, so a full buffer stops
  new claims.
- Leases of all claims are renewed every third of a lease, also while writes wait for room in the buffer.
- Each finished episode is saved, so whoever takes the ticket next goes on behind it.
- The event loop never waits for Redis: claims, writes and renewals have a thread each. All episodes and
  trials that are finished while one write is under way go with the next one.
- `run` ends when drained, and raises what a background task raised.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from actors.rollout.agent_stats import AgentStats, Tally
from actors.rollout.trial import Progress as OnEpisode
from agentmem.chaos import hold
from agentmem.failures import Failure, FailureKind
from agentmem.replay import Claim, CommitResult, FailResult, Progress, RejectedError, ReplayBuffer
from agentmem.trajectory import Ticket, Trial

log = logging.getLogger(__name__)

T = TypeVar("T")
Play = Callable[[Ticket, Trial | None, OnEpisode], Awaitable[Trial]]
"""Plays a ticket, behind the episodes of a saved trial if there is one."""

CLAIM_BLOCK_S = 0.5
"""How long one claim waits at the buffer for the first ticket; a drain waits for it at most so long."""
CLAIM_FRACTION = 32
"""Claims are made when this fraction of all places is free: one round trip for several tickets."""
CANCEL_S = 2.0
"""How long cancelled trials may take to clear up before they are left behind."""


class _Held:
    """A claim of this agent, from the claim until its end is written."""

    __slots__ = ("advice", "claim", "episodes", "reflections", "task", "wall_s")

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.task: asyncio.Task[None] | None = None
        # What of the trial is saved, or on its way.
        begun = claim.episodes or claim.ticket.played
        self.episodes = len(begun)
        self.reflections = len(claim.reflections if claim.episodes else claim.ticket.reflected)
        self.advice = len(claim.ticket.advised) + len(claim.advice)
        self.wall_s = claim.wall_s


class _Ended:
    """A trial that came to its end: a valid trial, or a failure."""

    __slots__ = ("failure", "held", "trial")

    def __init__(self, held: _Held, trial: Trial | None, failure: Failure | None) -> None:
        self.held, self.trial, self.failure = held, trial, failure


class AgentLoop:
    """See the module's docstring."""

    def __init__(self, name: str, buffer: ReplayBuffer, play: Play, *, trials_in_flight: int) -> None:
        self.name = name
        self._buffer, self._play, self._limit = buffer, play, trials_in_flight
        self._renew_every_s = buffer.settings.lease_s / 3
        self._tally = Tally(name, trials_in_flight)
        self._held: set[_Held] = set()
        self._progress: list[tuple[_Held, Progress]] = []
        self._ended: list[_Ended] = []
        self._room, self._dirty = asyncio.Event(), asyncio.Event()
        self._claims_no_more, self._drained = asyncio.Event(), asyncio.Event()
        self._draining = False
        self._writing = 0
        self._writing_since: float | None = None
        self._threads = {
            what: ThreadPoolExecutor(1, thread_name_prefix=f"{name}-{what}")
            for what in ("claim", "write", "renew")
        }

    async def run(self) -> None:
        """Play until drained."""
        names = (self._claim, self._write, self._renew, self._tally.watch_lag, self._drained.wait)
        tasks = [asyncio.ensure_future(each()) for each in names]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in [*tasks, *(held.task for held in self._held if held.task)]:
                task.cancel()
            for thread in self._threads.values():
                thread.shutdown(wait=False, cancel_futures=True)

    async def drain(self, timeout_s: float) -> AgentStats:
        """Claim nothing more, let trials finish for `timeout_s`, then give the others back; `run` ends."""
        self._draining = True
        self._room.set()
        # A claim under way could take again what is given back below.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._claims_no_more.wait(), CLAIM_BLOCK_S + CANCEL_S)
        await self._until_empty(timeout_s)
        unfinished = [held for held in self._held if held.task and not held.task.done()]
        for held in unfinished:
            assert held.task is not None
            held.task.cancel()
        if unfinished:
            await asyncio.wait([held.task for held in unfinished if held.task], timeout=CANCEL_S)
            claims = [held.claim for held in unfinished]
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._in("renew", self._buffer.release, claims), CANCEL_S)
            self._held.difference_update(unfinished)
            self._tally.in_flight(len(self._held))
        await self._until_empty(CANCEL_S)
        stats = self.stats()
        self._drained.set()
        return stats

    def stats(self) -> AgentStats:
        """Counters and gauges."""
        since = self._writing_since
        return self._tally.stats(
            unwritten=len(self._progress) + len(self._ended) + self._writing,
            blocked_s=0.0 if since is None else time.monotonic() - since,
        )

    # --- claiming and playing

    async def _claim(self) -> None:
        batch = max(1, self._limit // CLAIM_FRACTION)
        while not self._draining:
            free = self._limit - len(self._held)
            if free < batch:
                self._room.clear()
                await self._room.wait()
                continue
            claims = await self._in("claim", self._buffer.claim, self.name, free, CLAIM_BLOCK_S)
            if self._draining:
                await self._in("claim", self._buffer.release, claims)
                break
            for claim in claims:
                held = _Held(claim)
                self._held.add(held)
                held.task = asyncio.create_task(self._play_one(held))
            self._tally.in_flight(len(self._held))
        self._claims_no_more.set()
        await asyncio.Event().wait()  # `run` ends by the drain, not by the end of claiming

    async def _play_one(self, held: _Held) -> None:
        claim = held.claim
        saved = _saved(claim)
        self._tally.resumed += bool(claim.episodes)
        try:
            trial = await self._play(claim.ticket, saved, lambda so_far: self._save(held, so_far))
        except Exception as error:  # before the trial began: no environment, an unknown method
            self._ended.append(_Ended(held, None, Failure.of(error, where=claim.ticket.id)))
        else:
            if trial.failure is None:
                self._count(held, trial)
            self._ended.append(_Ended(held, trial, trial.failure))
        self._dirty.set()

    def _save(self, held: _Held, so_far: Trial) -> None:
        """The trial has one finished episode more."""
        item = Progress(
            claim=held.claim,
            episode=so_far.episodes[-1],
            reflections=so_far.reflections[held.reflections :],
            advice=so_far.advice[held.advice :],
            wall_s=so_far.wall_s - held.wall_s,
        )
        hold("agent.episode")
        self._count(held, so_far)
        self._progress.append((held, item))
        self._dirty.set()

    def _count(self, held: _Held, so_far: Trial) -> None:
        for episode in so_far.episodes[held.episodes :]:
            self._tally.episode(episode)
        for turn in so_far.reflections[held.reflections :]:
            self._tally.reflection(turn)
        for turn in so_far.advice[held.advice :]:
            self._tally.advice(turn)
        held.episodes, held.reflections = len(so_far.episodes), len(so_far.reflections)
        held.advice = len(so_far.advice)
        held.wall_s = so_far.wall_s

    # --- writing

    async def _write(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            ended, self._ended = self._ended, []
            over = {each.held for each in ended if each.failure is None}
            progress = [(held, item) for held, item in self._progress if held not in over]
            self._progress = []
            self._writing = len(progress) + len(ended)
            self._writing_since = time.monotonic()
            lost = await self._in("write", self._write_now, progress, ended)
            self._writing, self._writing_since = 0, None
            for held in lost:
                self._lose(held)
            self._held.difference_update(each.held for each in ended)
            self._tally.in_flight(len(self._held))
            self._room.set()

    def _write_now(self, progress: list[tuple[_Held, Progress]], ended: list[_Ended]) -> list[_Held]:
        """On the writing thread. Returns the claims that turned out to be lost."""
        kept = self._buffer.save_progress([item for _, item in progress])
        lost = [held for (held, _), ok in zip(progress, kept, strict=True) if not ok]
        self._commit([(each.held.claim, each.trial) for each in ended if each.trial and not each.failure])
        failures: dict[Failure, list[Claim]] = {}
        for each in ended:
            if each.failure is not None:
                failures.setdefault(each.failure, []).append(each.held.claim)
        for failure, claims in failures.items():
            self._fail(claims, failure)
        return lost

    def _commit(self, items: Sequence[tuple[Claim, Trial]]) -> None:
        hold("agent.commit")
        try:
            results = self._buffer.commit(items)
        except RejectedError as error:
            if len(items) > 1:  # nothing of the batch was stored: find the one
                for item in items:
                    self._commit([item])
                return
            self._fail([claim for claim, _ in items], Failure.of(error, where=items[0][0].ticket.id))
            return
        accepted = sum(result is CommitResult.ACCEPTED for result in results)
        self._tally.trials += accepted
        self._tally.duplicates += len(results) - accepted

    def _fail(self, claims: list[Claim], failure: Failure) -> None:
        retry = failure.kind is FailureKind.INFRASTRUCTURE
        results = self._buffer.fail(claims, failure, retry=retry)
        tickets = ", ".join(claim.ticket.id for claim in claims[:3]) + (" …" if len(claims) > 3 else "")
        level = logging.WARNING if retry else logging.ERROR
        log.log(level, "%d trials failed (%s): %s [%s]", len(claims), tickets, failure.what, failure.where)
        known = sum(result is not FailResult.LOST for result in results)
        self._tally.last_failure = f"{failure.what} [{failure.where}]"
        if retry:
            self._tally.failed += known
        else:
            self._tally.data_failures += known

    # --- leases

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._renew_every_s)
            held = list(self._held)
            kept = await self._in("renew", self._buffer.renew, [each.claim for each in held])
            for each, ok in zip(held, kept, strict=True):
                if not ok and each.task is not None and not each.task.done():
                    self._lose(each)

    def _lose(self, held: _Held) -> None:
        """Another actor has the ticket: stop playing it."""
        if held in self._held and held.task is not None and not held.task.done():
            held.task.cancel()
            self._held.discard(held)
            self._tally.lost += 1
            self._tally.in_flight(len(self._held))
            self._room.set()

    async def _in(self, thread: str, call: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads[thread], call, *args)

    async def _until_empty(self, timeout_s: float) -> None:
        end = time.monotonic() + timeout_s
        while self._held and (left := end - time.monotonic()) > 0:
            self._room.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._room.wait(), left)


def _saved(claim: Claim) -> Trial | None:
    """The progress of an earlier attempt, or what the ticket begins with, as the trial loop takes it."""
    ticket = claim.ticket
    if not (claim.episodes or ticket.played or ticket.advised):
        return None
    return Trial(
        ticket=ticket.id,
        task=ticket.task,
        member=ticket.member,
        group_size=ticket.group_size,
        mode=ticket.mode,
        episodes=claim.episodes or ticket.played,
        reflections=claim.reflections if claim.episodes else ticket.reflected,
        advice=(*ticket.advised, *claim.advice),
        wall_s=claim.wall_s,
        attempt=ticket.attempt,
    )

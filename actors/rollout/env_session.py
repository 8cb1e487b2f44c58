"""Environments in env workers, as the trials of one agent see them.

All calls that the agent's trials make within one tick of the event loop travel to a worker as one batch, and
all answers that are ready come back as one. One exchange is always under way while a session is open: it is
the heartbeat that keeps this agent's slots (see env_service.py), and it notices a worker that died or fell
silent.

Invariants: each call ends in its result or one exception. When a worker is lost, every outstanding call to it
raises EnvError, and so does every later call of its sessions; new sessions go to the other workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from actors.rollout.env_service import POLL_S
from actors.rollout.env_wire import RESULTS, Call, Op, decode_answers, encode, error_of, pack
from actors.rollout.protocols import Outcome, Situation
from agentmem.failures import EnvError
from envs.base import EpisodeRecord, Instance, PromptStyle

SILENT_S = 30.0
"""An exchange that takes this much longer than its poll time means that the worker is lost."""


class Worker(Protocol):
    """The way to one env worker. `exchange` raises EnvError when the worker is gone."""

    @property
    def slots(self) -> int: ...

    async def exchange(self, client: str, calls: bytes) -> bytes: ...


class RemoteEnvs:
    """Sessions over any number of workers, which may come and go."""

    def __init__(self, client: str, style: PromptStyle, *, wait_s: float = 120.0) -> None:
        self._client, self._style, self._wait_s = client, style, wait_s
        self._links: dict[str, _Link] = {}
        self._leaving: set[_Link] = set()
        """Not for new sessions; their open ones go on."""
        self._there = asyncio.Event()

    def configure(self, workers: Mapping[str, Worker]) -> None:
        """The workers to use from now on. Open sessions of others go on until they end."""
        for name in list(self._links):
            if name not in workers:
                self._leaving.add(self._links.pop(name))
        self._leaving = {link for link in self._leaving if link.sessions}
        for name, worker in workers.items():
            link = self._links.get(name)
            if link is None or link.lost:
                self._links[name] = _Link(self._client, worker)
        self._there.set() if self._links else self._there.clear()

    async def open(self) -> RemoteSession:
        """A session on the least loaded worker. Raises EnvError if there is none for `wait_s`."""
        end = asyncio.get_running_loop().time() + self._wait_s
        while True:
            for name in [name for name, link in self._links.items() if link.lost]:
                del self._links[name]
            if self._links:
                link = min(self._links.values(), key=lambda it: len(it.sessions) / it.slots)
                return RemoteSession(link, self._style)
            self._there.clear()
            try:
                await asyncio.wait_for(self._there.wait(), end - asyncio.get_running_loop().time())
            except TimeoutError:
                raise EnvError(f"no env worker for {self._wait_s:g} s") from None

    async def close(self) -> None:
        """Forget all workers; calls under way raise EnvError."""
        self.configure({})
        await asyncio.gather(*(link.close() for link in self._leaving))


class RemoteSession:
    """See Environment."""

    __slots__ = ("_id", "_link", "style")

    def __init__(self, link: _Link, style: PromptStyle) -> None:
        self.style = style
        self._link = link
        self._id = link.enter()

    async def reset(self, instance: Instance) -> Situation:
        """See Environment. Waits for a free slot."""
        situation: Situation = await self._link.call(self._id, Op.RESET, instance)
        return situation

    async def restart(self) -> Situation:
        """See Environment."""
        situation: Situation = await self._link.call(self._id, Op.RESTART, None)
        return situation

    async def step(self, action: str) -> Outcome:
        """See Environment."""
        outcome: Outcome = await self._link.call(self._id, Op.STEP, action)
        return outcome

    async def summarise(self, record: EpisodeRecord) -> str:
        """See Environment."""
        summary: str = await self._link.call(self._id, Op.SUMMARISE, record)
        return summary

    async def close(self) -> None:
        """Give the slot back; doesn't wait for the worker to hear of it."""
        self._link.leave(self._id)


class _Link:
    """All traffic with one worker."""

    def __init__(self, client: str, worker: Worker) -> None:
        self.slots = max(worker.slots, 1)
        self.sessions: set[int] = set()
        self.lost: Exception | None = None
        self._client, self._worker = client, worker
        self._loop = asyncio.get_running_loop()
        self._outgoing: list[Call] = []
        self._calls: dict[int, tuple[Op, asyncio.Future[Any]]] = {}
        self._next_session = self._next_call = 0
        self._flushing = False
        self._exchanges: set[asyncio.Task[None]] = set()

    def enter(self) -> int:
        self._next_session += 1
        self.sessions.add(self._next_session)
        return self._next_session

    def leave(self, session: int) -> None:
        if session in self.sessions:
            self.sessions.discard(session)
            if not self.lost:
                self._send(Call(0, session, Op.RELEASE))

    def call(self, session: int, op: Op, argument: str | int | EpisodeRecord | None) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.lost:
            future.set_exception(self.lost)
            return future
        self._next_call += 1
        self._calls[self._next_call] = (op, future)
        self._send(Call(self._next_call, session, op, pack(argument)))
        return future

    async def close(self) -> None:
        self._lose(EnvError("the agent is closing"))
        for task in self._exchanges:
            task.cancel()
        await asyncio.gather(*self._exchanges, return_exceptions=True)

    def _send(self, call: Call) -> None:
        self._outgoing.append(call)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self.lost:
            return
        if self._outgoing or (self.sessions and not self._exchanges):
            calls, self._outgoing = self._outgoing, []
            task = self._loop.create_task(self._exchange(calls))
            self._exchanges.add(task)
            task.add_done_callback(self._exchanged)

    async def _exchange(self, calls: list[Call]) -> None:
        try:
            data = await asyncio.wait_for(
                self._worker.exchange(self._client, encode(calls)), POLL_S + SILENT_S
            )
        except TimeoutError:
            self._lose(EnvError(f"env worker didn't answer for {POLL_S + SILENT_S:g} s"))
        except Exception as error:  # EnvError: it is gone; anything else is a bug, and each trial says so
            self._lose(error)
        else:
            for answer in decode_answers(data):
                op, future = self._calls.pop(answer.id)
                if future.done():  # its trial was cancelled
                    continue
                if answer.ok:
                    future.set_result(RESULTS[op].decode(answer.body))
                else:
                    future.set_exception(error_of(answer.body))

    def _exchanged(self, task: asyncio.Task[None]) -> None:
        self._exchanges.discard(task)
        self._flush()  # keep one under way

    def _lose(self, error: Exception) -> None:
        self.lost = self.lost or error
        self._outgoing.clear()
        calls, self._calls = self._calls, {}
        for _, future in calls.values():
            if not future.done():
                future.set_exception(error)

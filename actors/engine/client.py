"""The client of a set of engine replicas, used by asyncio code in one event loop.

- All requests made in one tick of the loop travel in one call; one `collect` is outstanding per busy
  replica.
- A request goes to the replica with the fewest in flight.
- If a replica dies, its requests are sent again to others (a sample has no side effects; at most one answer
  is taken). Without any replica, requests wait for `set_replicas` until their deadline.
- Every request ends: by a sample, or by a typed error within its deadline.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from actors.engine.protocol import Reply
from agentmem.failures import EngineError, FailureKind, ModelError
from agentmem.sampling import Sample, SampleRequest, Sampling

if TYPE_CHECKING:
    from ray.actor import ActorHandle

log = logging.getLogger(__name__)

_encoder = msgspec.msgpack.Encoder()
_replies = msgspec.msgpack.Decoder(Reply)


class Replica(Protocol):
    """One engine, as reached from here. A call is under way when it returns, awaited or not; an exception of
    `collect` means that the replica is lost."""

    def submit(self, client_id: str, requests: bytes) -> Awaitable[None]: ...

    def collect(self, client_id: str, max_wait_s: float) -> Awaitable[bytes]: ...

    def abort(self, client_id: str, ids: Sequence[str]) -> Awaitable[None]: ...


class RayReplica:
    """An `EngineActor`'s handle."""

    def __init__(self, handle: ActorHandle) -> None:
        self._handle = handle

    def submit(self, client_id: str, requests: bytes) -> Awaitable[None]:
        result: Awaitable[None] = self._handle.submit.remote(client_id, requests)
        return result

    def collect(self, client_id: str, max_wait_s: float) -> Awaitable[bytes]:
        result: Awaitable[bytes] = self._handle.collect.remote(client_id, max_wait_s)
        return result

    def abort(self, client_id: str, ids: Sequence[str]) -> Awaitable[None]:
        result: Awaitable[None] = self._handle.abort.remote(client_id, list(ids))
        return result


class _Pending:
    """A request that has no answer yet."""

    __slots__ = ("attempts", "deadline", "future", "request")

    def __init__(self, request: SampleRequest, future: asyncio.Future[Sample], deadline: float) -> None:
        self.request, self.future, self.deadline = request, future, deadline
        self.attempts = 0


class _Link:
    """One replica in use: what is in flight there, and the task that collects."""

    def __init__(self, name: str, replica: Replica) -> None:
        self.name, self.replica = name, replica
        self.pending: dict[str, _Pending] = {}
        self.busy = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class EngineClient:
    """See the module's docstring. Create it inside the event loop that uses it."""

    def __init__(
        self,
        replicas: Mapping[str, Replica],
        *,
        request_s: float = 120.0,
        collect_s: float = 10.0,
        max_attempts: int = 4,
    ) -> None:
        self.client_id = uuid.uuid4().hex
        self._request_s, self._collect_s, self._max_attempts = request_s, collect_s, max_attempts
        self._loop = asyncio.get_running_loop()
        self._links: dict[str, _Link] = {}
        self._queue: list[_Pending] = []
        """Not sent yet: of this tick, or waiting for a replica."""
        self._flushing = False
        self._sweeper: asyncio.TimerHandle | None = None
        self._next = 0
        self._closed = False
        self.lost: dict[str, str] = {}
        """Replicas that failed, and why; one that `set_replicas` names again is tried anew."""
        self.set_replicas(replicas)

    @property
    def in_flight(self) -> int:
        return len(self._queue) + sum(len(link.pending) for link in self._links.values())

    async def sample(self, prompt_ids: Sequence[int], sampling: Sampling) -> Sample:
        """One response. Raises `EngineError` (deadline, engines lost) or `ModelError` (a request that no
        engine can serve)."""
        if self._closed:
            raise EngineError("the engine client is closed")
        self._next += 1
        request = SampleRequest(id=str(self._next), prompt_ids=tuple(prompt_ids), sampling=sampling)
        now = self._loop.time()
        pending = _Pending(request, self._loop.create_future(), now + self._request_s)
        self._enqueue(pending)
        if self._sweeper is None:
            self._sweep_later()
        return await pending.future

    async def sample_many(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Sample]:
        return await asyncio.gather(*(self.sample(prompt, sampling) for prompt in prompts))

    def set_replicas(self, replicas: Mapping[str, Replica]) -> None:
        """Use exactly these from now on. What is in flight at a replica that leaves is sent to others."""
        for name in [name for name in self._links if name not in replicas]:
            self._drop(self._links[name], None)
        for name, replica in replicas.items():
            if name in self._links:
                continue
            self.lost.pop(name, None)
            link = self._links[name] = _Link(name, replica)
            link.task = self._loop.create_task(self._collect(link), name=f"collect-{name}")
        self._flush_soon()

    async def close(self) -> None:
        """Fail what is in flight and end all tasks."""
        self._closed = True
        tasks = [link.task for link in self._links.values() if link.task is not None]
        waiting = self._queue + [one for link in self._links.values() for one in link.pending.values()]
        self._queue, self._links = [], {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in waiting:
            _fail(one, EngineError("the engine client was closed"))
        if self._sweeper is not None:
            self._sweeper.cancel()

    # --- sending

    def _enqueue(self, pending: _Pending) -> None:
        self._queue.append(pending)
        self._flush_soon()

    def _flush_soon(self) -> None:
        # Callbacks of one tick all run before those scheduled in it: whoever asks in this tick is included.
        if self._queue and not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if not self._links:
            return
        batches: dict[str, list[SampleRequest]] = {}
        links = list(self._links.values())
        for one in self._queue:
            if one.future.done():
                continue
            link = min(links, key=lambda each: len(each.pending))
            link.pending[one.request.id] = one
            batches.setdefault(link.name, []).append(one.request)
        self._queue = []
        for name, batch in batches.items():
            link = self._links[name]
            link.busy.set()
            # Not awaited: a replica that dies fails its outstanding `collect` too; it is handled there.
            link.replica.submit(self.client_id, _encoder.encode(batch))

    # --- receiving

    async def _collect(self, link: _Link) -> None:
        while True:
            if not link.pending:
                link.busy.clear()
                await link.busy.wait()
            try:
                payload = await link.replica.collect(self.client_id, self._collect_s)
            except Exception as error:
                # Whatever the reason, this replica can't answer; its requests can be answered elsewhere.
                self._lose(link, f"{type(error).__name__}: {error}")
                return
            reply = _replies.decode(payload)
            for sample in reply.samples:
                one = link.pending.pop(sample.id, None)
                if one is not None and not one.future.done():
                    one.future.set_result(sample)
            for refused in reply.failures:
                one = link.pending.pop(refused.id, None)
                if one is None:
                    continue
                if refused.failure.kind is FailureKind.INFRASTRUCTURE:
                    self._again(one, refused.failure.what)
                else:
                    _fail(one, ModelError(refused.failure.what))
            if any(refused.failure.kind is FailureKind.INFRASTRUCTURE for refused in reply.failures):
                self._lose(link, reply.failures[0].failure.what)
                return

    def _lose(self, link: _Link, reason: str) -> None:
        reason = reason.strip().splitlines()[0]
        log.warning("engine %s is lost (%s); %d requests go elsewhere", link.name, reason, len(link.pending))
        self.lost[link.name] = reason
        self._drop(link, reason)

    def _drop(self, link: _Link, reason: str | None) -> None:
        """Take a link out of use; a reason means that it failed, which counts as an attempt."""
        if self._links.get(link.name) is link:
            del self._links[link.name]
        pending = list(link.pending.values())
        link.pending = {}
        for one in pending:
            if reason is None:
                self._enqueue(one)
            else:
                self._again(one, reason)
        if reason is None and link.task is not None:
            link.task.cancel()

    def _again(self, one: _Pending, reason: str) -> None:
        one.attempts += 1
        if one.attempts >= self._max_attempts:
            _fail(one, EngineError(f"request failed on {one.attempts} engines; the last said: {reason}"))
        elif not one.future.done():
            self._enqueue(one)

    # --- deadlines

    def _sweep_later(self) -> None:
        self._sweeper = self._loop.call_later(min(1.0, self._request_s / 4), self._sweep)

    def _sweep(self) -> None:
        """Expire what is overdue. One timer for all: a timer for each request costs more than it tells."""
        now = self._loop.time()
        for link in self._links.values():
            overdue = [one for one in link.pending.values() if one.deadline <= now or one.future.done()]
            for one in overdue:
                del link.pending[one.request.id]
                _fail(one, EngineError(f"engine {link.name}: no answer within {self._request_s:g} s"))
            if overdue:
                link.replica.abort(self.client_id, [one.request.id for one in overdue])
        for one in self._queue:
            if one.deadline <= now:
                lost = "; ".join(f"{name}: {why}" for name, why in self.lost.items()) or "none was given"
                _fail(one, EngineError(f"no engine to send to within {self._request_s:g} s ({lost})"))
        self._queue = [one for one in self._queue if not one.future.done()]
        self._sweeper = None
        if self.in_flight:
            self._sweep_later()


def _fail(one: _Pending, error: Exception) -> None:
    if not one.future.done():
        one.future.set_exception(error)

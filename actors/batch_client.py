"""The client of a set of replicas that answer batches of requests, used by asyncio code in one event loop:
of engines (engine/client.py) and of memory-policy generators (advice_client.py).

- All requests made in one tick of the loop travel in one call; one `collect` is outstanding per busy
  replica.
- A request goes to the replica with the fewest in flight.
- If a replica dies, its requests are sent again to others (an answer has no side effects; at most one is
  taken). Without any replica, requests wait for `set_replicas` until their deadline.
- Every request ends: by an answer, or by a typed error within its deadline.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from agentmem.failures import EngineError, Failure, FailureKind, ModelError

if TYPE_CHECKING:
    from ray.actor import ActorHandle

log = logging.getLogger(__name__)

_encoder = msgspec.msgpack.Encoder()


class Numbered(Protocol):
    """A request, an answer or a refusal. `id` is unique among the requests of a client."""

    @property
    def id(self) -> str: ...


class Refused(Numbered, Protocol):
    """A request that got no answer, with whose fault it is."""

    @property
    def failure(self) -> Failure: ...


A_co = TypeVar("A_co", bound=Numbered, covariant=True)
Q = TypeVar("Q", bound=Numbered)
A = TypeVar("A", bound=Numbered)


class Replies(Protocol[A_co]):
    """What has finished since the last time, as a replica sends it."""

    @property
    def samples(self) -> Sequence[A_co]: ...

    @property
    def failures(self) -> Sequence[Refused]: ...


class Replica(Protocol):
    """One replica, as reached from here. A call is under way when it returns, awaited or not; an exception of
    `collect` means that the replica is lost."""

    def submit(self, client_id: str, requests: bytes) -> Awaitable[None]: ...

    def collect(self, client_id: str, max_wait_s: float) -> Awaitable[bytes]: ...

    def abort(self, client_id: str, ids: Sequence[str]) -> Awaitable[None]: ...


class RayReplica:
    """The handle of an actor that has these methods."""

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


class _Pending(Generic[Q, A]):
    """A request that has no answer yet."""

    __slots__ = ("attempts", "deadline", "future", "request")

    def __init__(self, request: Q, future: asyncio.Future[A], deadline: float) -> None:
        self.request, self.future, self.deadline = request, future, deadline
        self.attempts = 0


class _Link(Generic[Q, A]):
    """One replica in use: what is in flight there, and the task that collects."""

    def __init__(self, name: str, replica: Replica) -> None:
        self.name, self.replica = name, replica
        self.pending: dict[str, _Pending[Q, A]] = {}
        self.busy = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class BatchClient(Generic[Q, A]):
    """See the module's docstring. Create it inside the event loop that uses it. `what` a replica is called in
    messages, and `replies`: how it encodes what has finished."""

    def __init__(
        self,
        replicas: Mapping[str, Replica],
        what: str,
        replies: type[Replies[A]],
        *,
        request_s: float = 120.0,
        collect_s: float = 10.0,
        max_attempts: int = 4,
    ) -> None:
        self.client_id = uuid.uuid4().hex
        self._request_s, self._collect_s, self._max_attempts = request_s, collect_s, max_attempts
        self._what = what
        self._replies: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(replies)
        self._loop = asyncio.get_running_loop()
        self._links: dict[str, _Link[Q, A]] = {}
        self._queue: list[_Pending[Q, A]] = []
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

    def next_id(self) -> str:
        """For a new request."""
        self._next += 1
        return str(self._next)

    async def ask(self, request: Q) -> A:
        """The answer to a request. Raises `EngineError` (deadline, replicas lost) or `ModelError` (a request
        that none can serve)."""
        if self._closed:
            raise EngineError(f"the {self._what} client is closed")
        now = self._loop.time()
        pending: _Pending[Q, A] = _Pending(request, self._loop.create_future(), now + self._request_s)
        self._enqueue(pending)
        if self._sweeper is None:
            self._sweep_later()
        return await pending.future

    def set_replicas(self, replicas: Mapping[str, Replica]) -> None:
        """Use exactly these from now on. What is in flight at a replica that leaves is sent to others."""
        for name in [name for name in self._links if name not in replicas]:
            self._drop(self._links[name], None)
        for name, replica in replicas.items():
            if name in self._links:
                continue
            self.lost.pop(name, None)
            link: _Link[Q, A] = _Link(name, replica)
            self._links[name] = link
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
            _fail(one, EngineError(f"the {self._what} client was closed"))
        if self._sweeper is not None:
            self._sweeper.cancel()

    # --- sending

    def _enqueue(self, pending: _Pending[Q, A]) -> None:
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
        batches: dict[str, list[Q]] = {}
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

    async def _collect(self, link: _Link[Q, A]) -> None:
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
            reply: Replies[A] = self._replies.decode(payload)
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

    def _lose(self, link: _Link[Q, A], reason: str) -> None:
        reason = reason.strip().splitlines()[0]
        log.warning(
            "%s %s is lost (%s); %d requests go elsewhere", self._what, link.name, reason, len(link.pending)
        )
        self.lost[link.name] = reason
        self._drop(link, reason)

    def _drop(self, link: _Link[Q, A], reason: str | None) -> None:
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

    def _again(self, one: _Pending[Q, A], reason: str) -> None:
        one.attempts += 1
        if one.attempts >= self._max_attempts:
            _fail(
                one, EngineError(f"request failed on {one.attempts} {self._what}s; the last said: {reason}")
            )
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
                _fail(one, EngineError(f"{self._what} {link.name}: no answer within {self._request_s:g} s"))
            if overdue:
                link.replica.abort(self.client_id, [one.request.id for one in overdue])
        for one in self._queue:
            if one.deadline <= now:
                lost = "; ".join(f"{name}: {why}" for name, why in self.lost.items()) or "none was given"
                _fail(one, EngineError(f"no {self._what} to send to within {self._request_s:g} s ({lost})"))
        self._queue = [one for one in self._queue if not one.future.done()]
        self._sweeper = None
        if self.in_flight:
            self._sweep_later()


def _fail(one: _Pending[Any, Any], error: Exception) -> None:
    if not one.future.done():
        one.future.set_exception(error)

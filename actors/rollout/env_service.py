"""What an env worker does, without Ray: k slots of one environment for any number of clients.

`exchange` is the one call on the way of a step: it takes a batch of calls and returns, as soon as there is
anything to return, all answers that are ready for this client. So a slow slot delays nobody: its answer comes
with a later exchange. A client has one exchange waiting at most; a newer one sends the older one home.

How environments are held:
- Others than light ones: one process each, so that a hang or crash costs its own slot only. After the
  deadline the process is killed, the trial's attempt fails, and the slot gets a fresh process.
- A process that holds more memory than `memory_limit_mib` (with all below it) is killed in the same way; one
  above four fifths of it is replaced as soon as its slot is free, which costs nobody anything (`recycled`).
- Light ones share one process. Should one hang all the same, the trials in that process fail their attempt,
  and from then on this worker gives every slot a process of its own (`demoted`).

Slots of a client that has been silent for `client_lease_s` (its actor was killed) are taken back. A session
that finds no free slot waits in line; waiting isn't an error and has no deadline here (the ticket's lease is
renewed meanwhile).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque

import msgspec

from actors.rollout.env_wire import (
    Answer,
    Call,
    EnvSettings,
    Op,
    decode_calls,
    encode,
    failed,
)
from actors.rollout.host_process import HostProcess
from agentmem.failures import Failure, FailureKind

POLL_S = 5.0
"""An exchange without answers returns after this time, so that a silent worker is told from a slow one."""
MEMORY_LOOK_S = 2.0
RECYCLE_AT = 0.8
"""Share of the memory limit from which a free slot's process is replaced."""
LINGER_S = 0.002
"""How long a first answer waits for others, so that they travel together."""


class ServiceStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counters since the start, and gauges."""

    slots: int
    busy: int
    waiting: int
    calls: int
    hung: int
    """Processes killed after a deadline."""
    crashed: int
    """Processes that ended by themselves."""
    reclaimed: int
    """Slots taken back from silent clients."""
    demoted: bool
    recycled: int = 0
    """Processes replaced between two trials, for their memory."""


class _Session:
    __slots__ = ("busy", "client", "id", "released", "slot")

    def __init__(self, client: _Client, session_id: int) -> None:
        self.client, self.id = client, session_id
        self.slot: _Slot | None = None
        self.busy = False
        self.released = False


class _Client:
    __slots__ = ("name", "ready", "seen", "sessions", "unanswered", "waiter")

    def __init__(self, name: str) -> None:
        self.name = name
        self.sessions: dict[int, _Session] = {}
        self.ready: list[Answer] = []
        self.unanswered = 0
        self.waiter: asyncio.Future[None] | None = None
        self.seen = time.monotonic()


class _Slot:
    __slots__ = ("host", "number", "session")

    def __init__(self, number: int) -> None:
        self.number = number
        self.host: HostProcess | None = None
        self.session: _Session | None = None


class EnvService:
    """See the module's docstring."""

    def __init__(
        self,
        settings: EnvSettings,
        slots: int,
        *,
        step_timeout_s: float,
        start_timeout_s: float = 120.0,
        client_lease_s: float = 60.0,
        memory_limit_mib: float | None = None,
    ) -> None:
        self._settings = settings
        self._memory_limit_mib = memory_limit_mib
        self._step_s, self._start_s = step_timeout_s, max(start_timeout_s, step_timeout_s)
        self._client_lease_s = max(client_lease_s, 2 * POLL_S)
        self._slots = [_Slot(n) for n in range(slots)]
        self._free = deque(self._slots)
        self._line: deque[tuple[_Session, Call]] = deque()
        self._clients: dict[str, _Client] = {}
        self._pending: dict[int, tuple[_Session, Call]] = {}
        self._next_id = 0
        self._shared: HostProcess | None = None
        self._hosts: set[HostProcess] = set()
        self._demoted = not settings.light
        self._calls = self._hung = self._crashed = self._reclaimed = self._recycled = 0
        self._closed = False
        self._tending: list[asyncio.Task[None]] = []

    async def exchange(self, client_name: str, data: bytes) -> bytes:
        """Accept calls; return answers (maybe none) within `POLL_S`."""
        client = self._clients.get(client_name)
        if client is None:
            client = self._clients[client_name] = _Client(client_name)
        client.seen = time.monotonic()
        if not self._tending:
            self._tend()
        for call in decode_calls(data):
            self._accept(client, call)
        _wake(client)
        if not client.ready:
            client.waiter = waiter = asyncio.get_running_loop().create_future()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(waiter, POLL_S)
            if client.waiter is waiter:
                client.waiter = None
        answers, client.ready = client.ready, []
        return encode(answers)

    def stats(self) -> ServiceStats:
        """Counters and gauges."""
        return ServiceStats(
            slots=len(self._slots),
            busy=len(self._slots) - len(self._free),
            waiting=len(self._line),
            calls=self._calls,
            hung=self._hung,
            crashed=self._crashed,
            reclaimed=self._reclaimed,
            demoted=self._demoted and self._settings.light,
            recycled=self._recycled,
        )

    def forget(self, client_name: str) -> int:
        """Take back the slots of a client that is known to be dead; returns how many."""
        client = self._clients.pop(client_name, None)
        if client is None:
            return 0
        slots = sum(session.slot is not None for session in client.sessions.values())
        self._reclaimed += slots
        for session in list(client.sessions.values()):
            self._release(session)
        return slots

    def host_pids(self) -> list[int]:
        """The host processes that live."""
        return [host.pid for host in self._hosts if host.pid is not None and not host.dead]

    async def close(self, timeout_s: float = 3.0) -> None:
        """End all environments, bounded."""
        self._closed = True
        for task in self._tending:
            task.cancel()
        await asyncio.gather(*(host.close(timeout_s) for host in self._hosts))

    # --- sessions

    def _accept(self, client: _Client, call: Call) -> None:
        session = client.sessions.get(call.session)
        if call.op is Op.RELEASE:
            if session is not None:
                self._release(session)
            return
        self._calls += 1
        client.unanswered += 1
        if session is None and call.op is Op.RESET:
            session = client.sessions[call.session] = _Session(client, call.session)
        if session is None:
            self._answer(client, failed(call.id, _lost(self._settings.name)))
            return
        session.busy = True
        if session.slot is None:
            self._line.append((session, call))
            self._serve_line()
        else:
            self._send(session, call)

    def _serve_line(self) -> None:
        while self._line and self._free:
            session, call = self._line.popleft()
            if session.released:
                session.client.unanswered -= 1
                continue
            session.slot = slot = self._free.popleft()
            slot.session = session
            self._send(session, call)

    def _release(self, session: _Session) -> None:
        session.client.sessions.pop(session.id, None)
        session.released = True
        if not session.busy:
            self._free_slot(session)

    def _free_slot(self, session: _Session) -> None:
        slot, session.slot = session.slot, None
        if slot is not None:
            slot.session = None
            self._free.append(slot)
            self._serve_line()

    # --- hosts

    def _send(self, session: _Session, call: Call) -> None:
        slot = session.slot
        assert slot is not None
        host = slot.host
        if host is None or host.dead:
            if host is not None:
                self._count(host)
            if call.op is not Op.RESET:  # the state went with the process
                self._conclude(session, failed(call.id, _gone(host)))
                return
            host = slot.host = self._host()
        starts = call.op is Op.RESET and slot.number not in host.slots
        host.slots.add(slot.number)
        # The client's call ids are its own: here each call gets an id that is unique in this worker.
        self._next_id += 1
        self._pending[self._next_id] = (session, call)
        inner = Call(self._next_id, slot.number, call.op, call.argument)
        host.send(inner, self._start_s if starts else self._step_s)

    def _host(self) -> HostProcess:
        if self._shared is not None and not self._shared.dead and not self._demoted:
            return self._shared
        self._hosts = {host for host in self._hosts if not host.ended}
        host = HostProcess(self._settings, self._answered)
        self._hosts.add(host)
        if not self._demoted:
            self._shared = host
        return host

    def _answered(self, inner: Call, answer: Answer) -> None:
        session, call = self._pending.pop(inner.id)
        slot = session.slot
        if (
            not answer.ok
            and slot is not None
            and slot.host is not None
            and slot.host.dead
            and not self._closed
        ):
            self._count(slot.host)
        self._conclude(session, Answer(call.id, answer.ok, answer.body))

    def _count(self, host: HostProcess) -> None:
        """A host's end is counted once, at its first lost call."""
        if host.counted:
            return
        host.counted = True
        if host.hung:
            self._hung += 1
            self._demoted = True
        else:
            self._crashed += 1

    def _conclude(self, session: _Session, answer: Answer) -> None:
        session.busy = False
        if not answer.ok:  # the session is over; its client releases it, too, which is then ignored
            session.client.sessions.pop(session.id, None)
            session.released = True
        if session.released:
            self._free_slot(session)
        self._answer(session.client, answer)

    # --- clients

    def _answer(self, client: _Client, answer: Answer) -> None:
        client.ready.append(answer)
        client.unanswered -= 1
        if client.waiter is None:
            return
        if client.unanswered == 0:
            _wake(client)
        elif len(client.ready) == 1:
            asyncio.get_running_loop().call_later(LINGER_S, _wake, client)

    def _tend(self) -> None:
        """Start what goes on beside the calls."""
        loop = asyncio.get_running_loop()
        self._tending.append(loop.create_task(self._reap()))
        if self._memory_limit_mib is not None:
            self._tending.append(loop.create_task(self._watch_memory(self._memory_limit_mib)))

    async def _watch_memory(self, limit_mib: float) -> None:
        """Replace processes that grow too large."""
        while True:
            await asyncio.sleep(MEMORY_LOOK_S)
            for host in [host for host in self._hosts if not host.dead]:
                held = await host.memory_mib()
                told = f"environment {self._settings.name}: its process holds {held:,.0f} MiB, more than"
                if held > limit_mib:
                    host.kill(f"{told} env.memory_limit_mib={limit_mib:g}")
                elif held > RECYCLE_AT * limit_mib and not self._in_use(host):
                    host.counted = True
                    self._recycled += 1
                    host.kill(f"{told} {RECYCLE_AT:.0%} of env.memory_limit_mib={limit_mib:g}")

    def _in_use(self, host: HostProcess) -> bool:
        return any(slot.host is host and slot.session is not None for slot in self._slots)

    async def _reap(self) -> None:
        """Take back the slots of silent clients."""
        while True:
            await asyncio.sleep(self._client_lease_s / 4)
            silent = time.monotonic() - self._client_lease_s
            for name in [c.name for c in self._clients.values() if c.seen < silent]:
                self.forget(name)


def _wake(client: _Client) -> None:
    waiter, client.waiter = client.waiter, None
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def _lost(name: str) -> Failure:
    return Failure(
        kind=FailureKind.INFRASTRUCTURE,
        what=f"EnvError: environment {name}: its worker doesn't know this trial (restarted, or long silent)",
        where=name,
    )


def _gone(host: HostProcess | None) -> Failure:
    why = host.dead if host is not None else "its process is gone"
    return Failure(kind=FailureKind.INFRASTRUCTURE, what=f"EnvError: {why}", where="another slot")

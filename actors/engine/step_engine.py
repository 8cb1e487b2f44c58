"""An engine around a core: one thread steps the core, the event loop talks to it in batches.

Everything that touches the core happens on the engine thread, between two steps, as a job from one queue.
Results cross back once a step and sink. There is no lock on the way of a request.

An update's decision is made exactly once (`_Verdict`): either the engine thread commits it, or its deadline
expires it; a job that comes too late puts the old weights back. So a caller that saw a timeout can rely on
the old version, also when the slow load ends after all.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from actors.engine.protocol import Core, Emitted, EngineConfig, EngineStats, Reply, SampleFailure, Sink
from actors.engine.threads import aside, post, refuse, succeed
from agentmem.chaos import hold
from agentmem.failures import AgentMemError, EngineError, Failure, FailureKind, ModelError, WeightSyncError
from agentmem.sampling import FinishReason, Sample, SampleRequest
from agentmem.weights.base import Phase, Probe, Receiver, Staged, UpdateReport, WeightUpdate

log = logging.getLogger(__name__)
T = TypeVar("T")


class _Live:
    """A request in flight."""

    __slots__ = ("adapter", "ids", "logprobs", "request", "sink", "version", "versions")

    def __init__(self, request: SampleRequest, sink: Sink, adapter: int | None) -> None:
        self.request, self.sink, self.adapter = request, sink, adapter
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.versions: list[int] = []


class _Verdict:
    """Committed or expired, whichever comes first; never both."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state = ""

    def claim(self, state: str) -> bool:
        """Whether `state` is the verdict."""
        with self._lock:
            if not self._state:
                self._state = state
            return self._state == state

    @property
    def expired(self) -> bool:
        return self._state == "expired"


class StepEngine:
    """See the module's docstring. `initial_version` is that of the weights at the model path."""

    def __init__(
        self,
        core: Core,
        config: EngineConfig,
        receivers: Mapping[str, Receiver],
        *,
        name: str = "engine",
        initial_version: int = 0,
    ) -> None:
        self.name = name
        self._core, self._config, self._receivers = core, config, receivers
        self._version = initial_version
        self._served: Staged | None = None
        """What is served now, for putting it back; None: the weights of the start."""
        self._adapter: int | None = None
        self._adapter_users: dict[int, int] = {}
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._live: dict[int, _Live] = {}
        self._next = 0
        self._dead: BaseException | None = None
        self._fatal: Exception | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._updating: asyncio.Lock
        self._requests = self._failures = self._prompt_tokens = self._response_tokens = self._steps = 0
        self._updates = self._failed_updates = 0
        self._paused_s = 0.0
        self._cache_share = 0.0

    @property
    def version(self) -> int:
        return self._version

    def receiver(self, transport: str) -> Receiver:
        """The receiving end of a transport, for transports whose data arrive by calls."""
        return self._receivers[transport]

    # --- life

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._updating = asyncio.Lock()
        started: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name=f"{self.name}-steps", daemon=True
        )
        self._thread.start()
        try:
            await asyncio.wait_for(started, self._config.start_s)
        except TimeoutError:
            raise EngineError(f"engine {self.name} did not start within {self._config.start_s:g} s") from None

    async def close(self) -> None:
        thread = self._thread
        if thread is None:
            return
        self._jobs.put(None)
        await asyncio.get_running_loop().run_in_executor(None, thread.join, 30.0)
        if thread.is_alive():
            raise EngineError(f"engine {self.name} did not stop within 30 s: a step hangs")
        self._thread = None

    def stats(self) -> EngineStats:
        cache_share, self._cache_share = self._cache_share, 0.0
        places = self._config.max_num_seqs
        return EngineStats(
            name=self.name,
            version=self._version,
            in_flight=len(self._live),
            requests=self._requests,
            failures=self._failures,
            prompt_tokens=self._prompt_tokens,
            response_tokens=self._response_tokens,
            steps=self._steps,
            updates=self._updates,
            failed_updates=self._failed_updates,
            paused_s=self._paused_s,
            cpu_s=time.process_time(),
            pid=os.getpid(),
            places=places,
            queued=max(0, len(self._live) - places),
            cache_share=cache_share,
        )

    # --- requests (event loop side)

    def check_alive(self) -> None:
        """Raise `EngineError` unless the engine can serve."""
        if self._thread is None:
            raise EngineError(f"engine {self.name} is not started")
        if self._dead is not None:
            raise EngineError(f"engine {self.name} is dead: {type(self._dead).__name__}: {self._dead}")

    def submit(self, requests: Sequence[SampleRequest], sink: Sink) -> None:
        self.check_alive()
        self._jobs.put(lambda: self._add(requests, sink))

    def abort(self, ids: Sequence[str], sink: Sink) -> None:
        gone = frozenset(ids)
        self._jobs.put(lambda: self._abort(gone, sink))

    async def sample(self, request: SampleRequest) -> Sample:
        return (await self.sample_many([request]))[0]

    async def sample_many(self, requests: Sequence[SampleRequest]) -> list[Sample]:
        """All samples, in order. The first failure is raised, and the others are aborted."""
        waiting = {request.id for request in requests}
        if len(waiting) != len(requests):
            raise ValueError("sample_many: request ids must be unique")
        samples: dict[str, Sample] = {}
        done: asyncio.Future[None] = self._loop.create_future()

        def sink(reply: Reply) -> None:
            for sample in reply.samples:
                samples[sample.id] = sample
            if done.done():
                return
            if reply.failures:
                done.set_exception(_error_of(reply.failures[0].failure))
            elif len(samples) == len(waiting):
                done.set_result(None)

        self.submit(requests, sink)
        try:
            await asyncio.wait_for(done, self._config.request_s)
        except TimeoutError:
            raise EngineError(
                f"engine {self.name}: no answer within {self._config.request_s:g} s "
                f"({len(samples)} of {len(waiting)} samples had come)"
            ) from None
        finally:
            if len(samples) < len(waiting):
                self.abort([i for i in waiting if i not in samples], sink)
        return [samples[request.id] for request in requests]

    async def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        seconds = self._config.request_s
        try:
            return await self._call(lambda: self._core.score(sequences, self._adapter), seconds, "score")
        except TimeoutError:
            raise EngineError(f"engine {self.name}: no scores within {seconds:g} s") from None

    # --- weights (event loop side)

    async def update_weights(self, update: WeightUpdate) -> UpdateReport:
        """Run all phases. Raises `WeightSyncError`; the old version serves then."""
        async with self._updating:
            if update.version == self._version:
                return UpdateReport(engine=self.name, version=self._version, applied=False)
            try:
                report = await self._update(update)
            except WeightSyncError:
                self._failed_updates += 1
                raise
            self._updates += 1
            return report

    async def _update(self, update: WeightUpdate) -> UpdateReport:
        limits = update.deadlines

        async def phase(which: Phase, work: Callable[[], T], *, beside: bool) -> T:
            seconds = limits.of(which)
            try:
                if beside:
                    return await aside(work, seconds, f"{self.name}-{which.value}")
                return await self._call(work, seconds, which.value)
            except TimeoutError:
                raise WeightSyncError(self.name, which.value, f"no answer within {seconds:g} s") from None
            except WeightSyncError:
                raise
            except Exception as error:
                raise WeightSyncError(self.name, which.value, f"{type(error).__name__}: {error}") from error

        await phase(Phase.ANNOUNCE, lambda: self._announce(update), beside=False)
        verdict = _Verdict()
        began = time.monotonic()
        staged: Staged | None = None
        if update.adapter is None:
            receiver = self._receivers[update.transport]
            staged = await phase(Phase.TRANSFER, lambda: receiver.receive(update), beside=True)
        transferred = time.monotonic()
        try:
            paused_s = await phase(Phase.VERIFY, lambda: self._swap(update, staged, verdict), beside=False)
        except WeightSyncError:
            if not verdict.claim("expired"):
                # Committed in the very moment in which the deadline ended: it is served, so say so.
                return UpdateReport(engine=self.name, version=update.version, applied=True)
            raise
        return UpdateReport(
            engine=self.name,
            version=update.version,
            applied=True,
            transfer_s=transferred - began,
            paused_s=paused_s,
        )

    # --- the engine thread

    def _run(self, started: asyncio.Future[None]) -> None:
        try:
            self._core.start()
        except BaseException as error:
            self._dead = error
            self._post(partial(refuse, started, error))
            return
        self._post(partial(succeed, started, None))
        core = self._core
        try:
            while True:
                if not self._run_waiting_jobs(wait=not core.busy()):
                    break
                if core.busy():
                    self._step()
        except BaseException as error:
            log.exception("engine %s: a step failed", self.name)
            self._die(error)
        else:
            self._die(EngineError(f"engine {self.name} was closed"))
        core.close()

    def _run_waiting_jobs(self, *, wait: bool) -> bool:
        """Run what is queued, waiting for the first job if there is nothing to step. False: close."""
        while wait or not self._jobs.empty():
            job = self._jobs.get()
            wait = False
            if job is None:
                return False
            job()
            if self._fatal is not None:
                raise self._fatal
        return True

    def _add(self, requests: Sequence[SampleRequest], sink: Sink) -> None:
        core, live = self._core, self._live
        accepted: list[SampleRequest] = []
        failures: list[SampleFailure] = []
        numbers: list[int] = []
        if self._dead is not None:
            what = f"engine {self.name} is dead: {type(self._dead).__name__}: {self._dead}"
            dead = Failure(kind=FailureKind.INFRASTRUCTURE, what=what)
            failures = [SampleFailure(id=request.id, failure=dead) for request in requests]
            self._post(partial(sink, Reply([], failures)))
            return
        for request in requests:
            reason = core.refusal(request)
            if reason is not None:
                what = f"engine {self.name} refuses request {request.id}: {reason}"
                failures.append(
                    SampleFailure(id=request.id, failure=Failure(kind=FailureKind.DATA, what=what))
                )
                continue
            number = self._next
            self._next += 1
            live[number] = _Live(request, sink, self._adapter)
            numbers.append(number)
            accepted.append(request)
            self._prompt_tokens += len(request.prompt_ids)
        if self._adapter is not None:
            self._adapter_users[self._adapter] = self._adapter_users.get(self._adapter, 0) + len(accepted)
        core.add(numbers, accepted, self._adapter)
        if failures:
            self._failures += len(failures)
            self._post(partial(sink, Reply([], failures)))

    def _abort(self, ids: frozenset[str], sink: Sink) -> None:
        if self._dead is not None:
            return
        gone = [n for n, one in self._live.items() if one.request.id in ids and one.sink == sink]
        self._core.abort(gone)
        for number in gone:
            self._release(self._live.pop(number))

    def _step(self) -> None:
        self._steps += 1
        hold("engine.turn")
        emitted = self._core.step()
        self._cache_share = max(self._cache_share, self._core.cache_share())
        self._give_out(emitted)

    def _give_out(self, emitted: Sequence[Emitted]) -> None:
        """Stamp with the version that is served now, and answer what has finished."""
        version = self._version
        replies: dict[Sink, Reply] = {}
        for item in emitted:
            one = self._live.get(item.id)
            if one is None:
                continue
            one.ids += item.ids
            one.logprobs += item.logprobs
            # An adapter is chosen when the request starts; merged weights change under a running one.
            one.versions += [version if one.adapter is None else one.adapter] * len(item.ids)
            if item.finish is None and not item.aborted:
                continue
            del self._live[item.id]
            self._release(one)
            reply = replies.get(one.sink)
            if reply is None:
                reply = replies[one.sink] = Reply([], [])
            if item.finish is None:
                self._failures += 1
                what = f"engine {self.name} gave request {one.request.id} up"
                failure = Failure(kind=FailureKind.INFRASTRUCTURE, what=what)
                reply.failures.append(SampleFailure(id=one.request.id, failure=failure))
            else:
                self._requests += 1
                self._response_tokens += len(one.ids)
                reply.samples.append(_sample_of(one, item.finish))
        if replies:
            self._post(partial(_deliver, replies))

    def _release(self, one: _Live) -> None:
        """An adapter goes when its last request has, unless it is the one being served."""
        if one.adapter is None:
            return
        self._adapter_users[one.adapter] -= 1
        self._drop_unused_adapters()

    def _drop_unused_adapters(self) -> None:
        for number in [n for n, users in self._adapter_users.items() if users == 0 and n != self._adapter]:
            self._core.remove_adapter(number)
            del self._adapter_users[number]

    def _announce(self, update: WeightUpdate) -> None:
        if update.adapter is None and update.transport not in self._receivers:
            raise ModelError(
                f"transport {update.transport!r} is unknown here; known: {sorted(self._receivers)}"
            )
        if update.adapter is not None and update.adapter.rank > self._config.lora_rank:
            raise ModelError(f"adapter rank {update.adapter.rank} > lora_rank {self._config.lora_rank}")
        if update.adapter is not None and len(self._adapter_users) >= self._config.max_adapters:
            raise EngineError(f"requests of {len(self._adapter_users)} adapter versions are still in flight")
        reason = self._core.check(update)
        if reason is not None:
            raise ModelError(reason)

    def _swap(self, update: WeightUpdate, staged: Staged | None, verdict: _Verdict) -> float:
        """Load, compare, then commit or put back; returns the seconds for which generation was held."""
        if verdict.expired:
            return 0.0
        began = time.monotonic()
        before = self._adapter
        try:
            if update.adapter is not None:
                self._core.add_adapter(update.version, update.adapter.path)
                self._adapter = update.version
                self._adapter_users.setdefault(update.version, 0)
            else:
                self._give_out(self._core.drain())
                self._core.load(staged)
                self._adapter = None
            reason = None
            if update.probe is not None:
                reason = update.probe.mismatch(self._scores_of(update.probe))
        except Exception:
            self._put_back(before, update)
            raise
        hold("engine.swap")
        if reason is None and verdict.claim("committed"):
            self._version = update.version
            if update.adapter is None:
                self._served = staged
            self._drop_unused_adapters()
        else:
            self._put_back(before, update)
            if reason is not None:
                raise WeightSyncError(self.name, Phase.VERIFY.value, reason)
        held = time.monotonic() - began
        self._paused_s += held
        return held

    def _scores_of(self, probe: Probe) -> list[list[float]]:
        if not probe.pictures:
            return self._core.score(probe.sequences, self._adapter)
        return self._core.score(probe.sequences, self._adapter, probe.pictures)

    def _put_back(self, adapter: int | None, update: WeightUpdate) -> None:
        """The old version serves again. If that fails the engine has no defined weights, so it ends."""
        self._adapter = adapter
        try:
            if update.adapter is None:
                self._core.load(self._served)
            self._drop_unused_adapters()
        except Exception as error:
            self._fatal = error
            raise

    def _die(self, error: BaseException) -> None:
        """Answer everything with a failure, now and from now on."""
        self._dead = error
        what = f"engine {self.name} is dead: {type(error).__name__}: {error}"
        failure = Failure(kind=FailureKind.INFRASTRUCTURE, what=what)
        replies: dict[Sink, Reply] = {}
        for one in self._live.values():
            reply = replies.setdefault(one.sink, Reply([], []))
            reply.failures.append(SampleFailure(id=one.request.id, failure=failure))
        self._failures += len(self._live)
        self._live.clear()
        self._post(partial(_deliver, replies))
        while not self._jobs.empty():
            job = self._jobs.get()
            if job is not None:
                job()

    # --- between the threads

    def _post(self, work: Callable[[], object]) -> None:
        post(self._loop, work)

    def between_steps(self, work: Callable[[], T], seconds: float) -> T:
        """Run `work` on the engine thread, from any other thread than the loop's."""
        return asyncio.run_coroutine_threadsafe(self._call(work, seconds, "a call"), self._loop).result(
            seconds + 1
        )

    async def _call(self, work: Callable[[], T], seconds: float, what: str) -> T:
        """Run `work` on the engine thread between two steps. `TimeoutError` if it isn't done in time; work
        that hasn't begun by then never does."""
        self.check_alive()
        future: asyncio.Future[T] = self._loop.create_future()
        gone = threading.Event()

        def job() -> None:
            if gone.is_set():
                return
            try:
                if self._dead is not None:
                    raise EngineError(f"engine {self.name} died before {what}")
                result = work()
            except Exception as error:
                self._post(partial(refuse, future, error))
            else:
                self._post(partial(succeed, future, result))

        self._jobs.put(job)
        try:
            return await asyncio.wait_for(future, seconds)
        finally:
            gone.set()


def _sample_of(one: _Live, finish: FinishReason) -> Sample:
    return Sample(
        id=one.request.id,
        response_ids=tuple(one.ids),
        logprobs=tuple(one.logprobs),
        versions=tuple(one.versions),
        finish_reason=finish,
    )


def _deliver(replies: Mapping[Sink, Reply]) -> None:
    for sink, reply in replies.items():
        sink(reply)


def _error_of(failure: Failure) -> AgentMemError:
    """The typed error of a failure that travelled as data."""
    return (
        EngineError(failure.what) if failure.kind is FailureKind.INFRASTRUCTURE else ModelError(failure.what)
    )

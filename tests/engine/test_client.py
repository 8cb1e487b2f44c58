"""The client: batches a tick, balances, survives lost engines, ends every request."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest
import pytest_asyncio

from actors.engine.client import EngineClient
from actors.engine.protocol import Reply, SampleFailure
from agentmem.failures import EngineError, Failure, FailureKind, ModelError
from agentmem.sampling import FinishReason, Sample, SampleRequest, Sampling

ONE = Sampling(max_tokens=1)


class FakeReplica:
    """An engine in this process: answers at once, or holds everything; can die."""

    def __init__(self, mark: int = 0, *, hold: bool = False) -> None:
        self.mark, self.hold = mark, hold
        self.batches: list[list[SampleRequest]] = []
        self.aborted: list[str] = []
        self._ready: list[SampleRequest] = []
        self._failures: list[SampleFailure] = []
        self._event = asyncio.Event()
        self._dead = False

    def submit(self, client_id: str, requests: bytes) -> asyncio.Future[None]:
        batch = msgspec.msgpack.decode(requests, type=list[SampleRequest])
        self.batches.append(batch)
        if not self.hold:
            self.answer(batch)
        return _done()

    def answer(self, batch: Sequence[SampleRequest]) -> None:
        self._ready += batch
        self._event.set()

    def refuse(self, batch: Sequence[SampleRequest], kind: FailureKind) -> None:
        self._failures += [SampleFailure(id=r.id, failure=Failure(kind=kind, what="no")) for r in batch]
        self._event.set()

    def die(self) -> None:
        self._dead = True
        self._event.set()

    async def collect(self, client_id: str, max_wait_s: float) -> bytes:
        if not self._event.is_set():
            try:
                await asyncio.wait_for(self._event.wait(), max_wait_s)
            except TimeoutError:
                return msgspec.msgpack.encode(Reply([], []))
        if self._dead:
            raise RuntimeError("actor died")
        self._event.clear()
        samples = [
            Sample(
                id=r.id,
                response_ids=(r.prompt_ids[0],),
                logprobs=(-1.0,),
                versions=(self.mark,),
                finish_reason=FinishReason.LENGTH,
            )
            for r in self._ready
        ]
        reply = Reply(samples, self._failures)
        self._ready, self._failures = [], []
        return msgspec.msgpack.encode(reply)

    def abort(self, client_id: str, ids: Sequence[str]) -> asyncio.Future[None]:
        self.aborted += ids
        return _done()


def _done() -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done


@pytest_asyncio.fixture
async def clients() -> AsyncIterator[list[EngineClient]]:
    opened: list[EngineClient] = []
    yield opened
    for client in opened:
        await client.close()


async def until(condition: object) -> None:
    async with asyncio.timeout(5):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0)


async def test_all_requests_of_a_tick_travel_together(clients: list[EngineClient]) -> None:
    replica = FakeReplica()
    client = EngineClient({"a": replica})
    clients.append(client)
    samples = await asyncio.gather(*(client.sample([i], ONE) for i in range(100)))
    assert [s.response_ids for s in samples] == [(i,) for i in range(100)]
    assert [len(batch) for batch in replica.batches] == [100]


async def test_requests_spread_over_replicas(clients: list[EngineClient]) -> None:
    replicas = {name: FakeReplica(hold=True) for name in "abc"}
    client = EngineClient(replicas)
    clients.append(client)
    waiting = [asyncio.ensure_future(client.sample([i], ONE)) for i in range(30)]
    await until(lambda: client.in_flight == 30 and all(r.batches for r in replicas.values()))
    assert [sum(map(len, r.batches)) for r in replicas.values()] == [10, 10, 10]
    # One replica answers; what comes next goes there.
    replicas["a"].answer(replicas["a"].batches[0])
    await until(lambda: sum(one.done() for one in waiting) == 10)
    waiting += [asyncio.ensure_future(client.sample([i], ONE)) for i in range(6)]
    await until(lambda: len(replicas["a"].batches) == 2)
    assert len(replicas["a"].batches[1]) == 6
    for replica in replicas.values():
        replica.answer([r for batch in replica.batches for r in batch])
    await asyncio.gather(*waiting)


async def test_requests_of_a_dead_engine_are_answered_by_another(clients: list[EngineClient]) -> None:
    dying, healthy = FakeReplica(1, hold=True), FakeReplica(2)
    client = EngineClient({"dying": dying, "healthy": healthy})
    clients.append(client)
    waiting = [asyncio.ensure_future(client.sample([i], ONE)) for i in range(20)]
    await until(lambda: dying.batches)
    dying.die()
    samples = await asyncio.gather(*waiting)
    assert [s.response_ids[0] for s in samples] == list(range(20))
    assert {s.versions[0] for s in samples} == {2}
    assert client.lost == {"dying": "RuntimeError: actor died"}


async def test_without_engines_requests_wait_for_new_ones(clients: list[EngineClient]) -> None:
    dying = FakeReplica(hold=True)
    client = EngineClient({"a": dying})
    clients.append(client)
    waiting = asyncio.ensure_future(client.sample([5], ONE))
    await until(lambda: dying.batches)
    dying.die()
    await until(lambda: client.lost)
    assert not waiting.done()
    client.set_replicas({"a": FakeReplica(7)})
    assert (await waiting).versions == (7,)
    assert client.lost == {}


async def test_replica_that_leaves_hands_its_requests_over(clients: list[EngineClient]) -> None:
    leaving, staying = FakeReplica(1, hold=True), FakeReplica(2, hold=True)
    client = EngineClient({"leaving": leaving, "staying": staying})
    clients.append(client)
    waiting = [asyncio.ensure_future(client.sample([i], ONE)) for i in range(4)]
    await until(lambda: leaving.batches)
    client.set_replicas({"staying": staying})
    await until(lambda: len(staying.batches) == 2)
    staying.answer([r for batch in staying.batches for r in batch])
    assert {s.versions for s in await asyncio.gather(*waiting)} == {(2,)}


async def test_request_that_nobody_answers_ends_at_its_deadline(clients: list[EngineClient]) -> None:
    silent = FakeReplica(hold=True)
    client = EngineClient({"silent": silent}, request_s=0.2)
    clients.append(client)
    with pytest.raises(EngineError, match="engine silent: no answer within 0.2 s"):
        await client.sample([1], ONE)
    assert silent.aborted == ["1"]
    assert client.in_flight == 0


async def test_without_any_engine_a_request_ends_at_its_deadline(clients: list[EngineClient]) -> None:
    client = EngineClient({}, request_s=0.2)
    clients.append(client)
    with pytest.raises(EngineError, match="no engine to send to within 0.2 s"):
        await client.sample([1], ONE)


async def test_infrastructure_failures_are_retried_within_a_budget(clients: list[EngineClient]) -> None:
    replicas = {name: FakeReplica(hold=True) for name in "abcd"}
    client = EngineClient(replicas, max_attempts=3)
    clients.append(client)
    waiting = asyncio.ensure_future(client.sample([1], ONE))
    for count in (1, 2, 3):
        await until(lambda n=count: sum(len(r.batches) for r in replicas.values()) == n)
        for name, replica in replicas.items():
            if replica.batches and name not in client.lost:
                replica.refuse(replica.batches[-1], FailureKind.INFRASTRUCTURE)
    with pytest.raises(EngineError, match="failed on 3 engines"):
        await waiting


async def test_bad_request_is_not_retried(clients: list[EngineClient]) -> None:
    replica = FakeReplica(hold=True)
    client = EngineClient({"a": replica})
    clients.append(client)
    waiting = asyncio.ensure_future(client.sample([1], ONE))
    await until(lambda: replica.batches)
    replica.refuse(replica.batches[0], FailureKind.DATA)
    with pytest.raises(ModelError, match="no"):
        await waiting
    assert client.lost == {}


async def test_late_answer_of_an_abandoned_request_is_dropped(clients: list[EngineClient]) -> None:
    replica = FakeReplica(hold=True)
    client = EngineClient({"a": replica})
    clients.append(client)
    waiting = asyncio.ensure_future(client.sample([1], ONE))
    await until(lambda: replica.batches)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    replica.answer(replica.batches[0])
    replica.hold = False
    assert (await client.sample([2], ONE)).response_ids == (2,)
    await until(lambda: client.in_flight == 0)


async def test_close_fails_what_is_in_flight() -> None:
    client = EngineClient({"a": FakeReplica(hold=True)})
    waiting = asyncio.ensure_future(client.sample([1], ONE))
    await until(lambda: client.in_flight == 1)
    await client.close()
    with pytest.raises(EngineError, match="closed"):
        await waiting
    with pytest.raises(EngineError, match="closed"):
        await client.sample([1], ONE)

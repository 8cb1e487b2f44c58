"""The engine as a Ray actor: batches of requests in, batches of answers out, by client.

A call per request would cost more than the request, so a client submits many at once and keeps one `collect`
outstanding, which returns everything that has finished as soon as something has. Payloads are msgpack.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from actors.engine.factory import build_engine
from actors.engine.protocol import EngineConfig, EngineStats, Reply, SampleFailure
from actors.engine.transfer import IpcReceiver
from actors.outbox import Outboxes
from agentmem.failures import EngineError, Failure
from agentmem.sampling import Sample, SampleRequest
from agentmem.weights.base import UpdateReport, WeightUpdate

if TYPE_CHECKING:
    from ray.actor import ActorHandle

_requests = msgspec.msgpack.Decoder(list[SampleRequest])
_encoder = msgspec.msgpack.Encoder()


class EngineActor:
    """Made a Ray actor by `create`. All methods run in one event loop; the model runs on its own thread."""

    def __init__(self, config: EngineConfig, name: str, version: int = 0) -> None:
        self._engine = build_engine(config, name=name, initial_version=version)
        self._outboxes = Outboxes()

    async def start(self) -> int:
        """Load the model; returns the version that is served. Typed errors for a bad model or setting."""
        await self._engine.start()
        return self._engine.version

    async def submit(self, client_id: str, requests: bytes) -> None:
        """Accept an encoded list of `SampleRequest`. Never raises: a dead engine answers by failures."""
        batch = _requests.decode(requests)
        put = self._outboxes.of(client_id).put
        try:
            self._engine.submit(batch, put)
        except EngineError as error:
            failure = Failure.of(error)
            put(Reply([], [SampleFailure(id=request.id, failure=failure) for request in batch]))

    async def collect(self, client_id: str, max_wait_s: float) -> bytes:
        """An encoded `Reply`: all that has finished; empty if nothing has within `max_wait_s`."""
        return _encoder.encode(Reply(*await self._outboxes.of(client_id).collect(max_wait_s)))

    async def abort(self, client_id: str, ids: Sequence[str]) -> None:
        self._engine.abort(ids, self._outboxes.of(client_id).put)

    async def sample_many(self, requests: Sequence[SampleRequest]) -> list[Sample]:
        return await self._engine.sample_many(requests)

    async def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        return await self._engine.score(sequences)

    async def update_weights(self, update: WeightUpdate) -> UpdateReport:
        return await self._engine.update_weights(update)

    async def deliver(self, version: int, bucket: Mapping[str, Any], seconds: float) -> None:
        """A bucket of CUDA IPC handles; returns when the engine has copied it."""
        receiver = self._engine.receiver("ipc")
        if not isinstance(receiver, IpcReceiver):
            raise EngineError(f"engine {self._engine.name} takes no CUDA IPC handles")
        await asyncio.get_running_loop().run_in_executor(None, receiver.deliver, version, bucket, seconds)

    async def stats(self) -> EngineStats:
        return self._engine.stats()

    async def ping(self) -> int:
        """The version that is served. Raises `EngineError` if the engine is dead."""
        self._engine.check_alive()
        return self._engine.version

    async def close(self) -> None:
        await self._engine.close()


def create(config: EngineConfig, name: str, *, version: int = 0, **options: Any) -> ActorHandle:
    """Make the Ray actor (not yet started: await `start`). `options` are Ray's, as `num_cpus`."""
    import ray

    env_vars = {"OMP_NUM_THREADS": str(config.threads)}
    runtime_env = {"env_vars": env_vars, **options.pop("runtime_env", {})}
    settings: dict[str, Any] = {
        "num_cpus": config.threads,
        "max_concurrency": 1000,
        "runtime_env": runtime_env,
        **options,
    }
    return ray.remote(EngineActor).options(**settings).remote(config, name, version)

"""An engine without a model, for a trial that proves the way and nothing else (`agentmem doctor`).

It answers every request at once with the least that an answer can be: allowed tokens if only some may be
sampled, else token 0, ended by a stop token where there is one. What it plays means nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from actors.engine.protocol import Reply
from actors.outbox import Outboxes
from agentmem.sampling import FinishReason, Sample, SampleRequest

if TYPE_CHECKING:
    from ray.actor import ActorHandle

LOGPROB = -1.0
VERSION = 0
_requests = msgspec.msgpack.Decoder(list[SampleRequest])
_encoder = msgspec.msgpack.Encoder()


def fake_sample(request: SampleRequest) -> Sample:
    """Pure."""
    sampling = request.sampling
    stops = [i for i in sampling.stop_token_ids if not sampling.allowed_ids or i in sampling.allowed_ids]
    ids = [sampling.allowed_ids[0] if sampling.allowed_ids else 0]
    if stops and sampling.max_tokens > 1:
        ids.append(stops[0])
    ended = bool(stops) and ids[-1] in stops
    return Sample(
        id=request.id,
        response_ids=tuple(ids),
        logprobs=(LOGPROB,) * len(ids),
        versions=(VERSION,) * len(ids),
        finish_reason=FinishReason.STOP if ended else FinishReason.LENGTH,
    )


class FakeEngine:
    """Ray actor with the part of `EngineActor` that agents call."""

    def __init__(self) -> None:
        self._outboxes = Outboxes()

    async def submit(self, client_id: str, requests: bytes) -> None:
        """See EngineActor."""
        samples = [fake_sample(request) for request in _requests.decode(requests)]
        self._outboxes.of(client_id).put(Reply(samples, []))

    async def collect(self, client_id: str, max_wait_s: float) -> bytes:
        """See EngineActor."""
        return _encoder.encode(Reply(*await self._outboxes.of(client_id).collect(max_wait_s)))

    async def abort(self, client_id: str, ids: Sequence[str]) -> None:
        """Every request was answered at once."""

    async def ping(self) -> int:
        """The version that is served."""
        return VERSION


def create() -> ActorHandle:
    """Make the Ray actor."""
    import ray

    settings: dict[str, Any] = {"num_cpus": 0, "max_concurrency": 1000}
    return ray.remote(FakeEngine).options(**settings).remote()

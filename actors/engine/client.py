"""The client of a policy's engines: tokens in, tokens out, over however many replicas there are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from actors.batch_client import BatchClient, Replica
from actors.engine.protocol import Reply
from agentmem.sampling import Sample, SampleRequest, Sampling
from agentmem.vision.picture import Picture


class EngineClient(BatchClient[SampleRequest, Sample]):
    """See `BatchClient`."""

    def __init__(
        self,
        replicas: Mapping[str, Replica],
        *,
        request_s: float = 120.0,
        collect_s: float = 10.0,
        max_attempts: int = 4,
    ) -> None:
        super().__init__(
            replicas,
            "engine",
            Reply,
            request_s=request_s,
            collect_s=collect_s,
            max_attempts=max_attempts,
        )

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, image: Picture | None = None
    ) -> Sample:
        """One response. Raises what `ask` does."""
        return await self.ask(
            SampleRequest(id=self.next_id(), prompt_ids=tuple(prompt_ids), sampling=sampling, image=image)
        )

    async def sample_many(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Sample]:
        """One response each."""
        return await asyncio.gather(*(self.sample(prompt, sampling) for prompt in prompts))

"""The client of the memory-policy generators, as agents use it."""

from __future__ import annotations

from collections.abc import Mapping

from actors.batch_client import BatchClient, Replica
from actors.rollout.advising import AdviceReplies, AdviceRequest, Advised


class AdviceClient(BatchClient[AdviceRequest, Advised]):
    """See `BatchClient`. `timeout_s` is the deadline of a question, wherever it is asked meanwhile."""

    def __init__(self, replicas: Mapping[str, Replica], *, timeout_s: float, collect_s: float = 10.0) -> None:
        super().__init__(
            replicas, "generator", AdviceReplies, request_s=timeout_s, collect_s=collect_s, max_attempts=8
        )

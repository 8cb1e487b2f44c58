"""What an engine is: tokens in, tokens out, weights swapped in flight.

`Engine` is what the rest of the system sees (asynchronous, deadlines, typed errors). `Core` is what a back
end has to provide: a synchronous, single-threaded stepper. `StepEngine` (step_engine.py) turns any core into
an engine, so phases, deadlines, versions and verification are written once.

Invariants:
- response ids are the sampled ids bit for bit; each has its processed log-probability (temperature, top-p and
  top-k included) and the version of the weights that sampled it;
- weights change only between two steps, so one step has one version; a response may span several;
- nothing computed under old weights (prefix cache included) is reused under new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from agentmem.failures import Failure
from agentmem.sampling import FinishReason, Sample, SampleRequest
from agentmem.vision.picture import Picture
from agentmem.weights.base import Staged, UpdateReport, WeightUpdate

if TYPE_CHECKING:
    from agentmem.vision.reader import PictureReader


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How to start an engine. The defaults suit a small model on CPU."""

    model: str
    """Directory in Hugging Face format (config.json, safetensors); no tokenizer is needed."""
    kind: str = "vllm"
    """`vllm` or `torch`."""
    dtype: str = "float32"
    max_model_len: int = 512
    max_num_seqs: int = 128
    """Requests in one step. About half of what is in flight is best: the next wave is then always queued."""
    max_num_batched_tokens: int = 8192
    tensor_parallel_size: int = 1
    prefix_caching: bool = True
    block_size: int | None = None
    """Tokens per cache block: only whole blocks are shared. None: the back end's default."""
    kv_cache_gib: int = 1
    """CPU only. On a GPU the cache takes what `gpu_memory_utilization` leaves."""
    gpu_memory_utilization: float = 0.85
    async_scheduling: bool | None = None
    """Schedule the next step while one runs. None: on GPU only, where it hides the scheduler's time."""
    enforce_eager: bool | None = None
    """None: eager on CPU, compiled on GPU."""
    threads: int = 1
    seed: int = 0
    lora_rank: int = 0
    """Largest adapter rank; 0: no adapters."""
    max_adapters: int = 4
    """Adapters of different versions that may be in flight at once."""
    weight_transfer: str = ""
    """`nccl` or `ipc` to receive weights on the GPU; files always work."""
    start_s: float = 300.0
    request_s: float = 120.0
    """Deadline of one request."""


class SampleFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A request that got no answer, with whose fault it is."""

    id: str
    failure: Failure


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """What has finished since the last reply."""

    samples: list[Sample]
    failures: list[SampleFailure]


class EngineStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counters since the start, and gauges."""

    name: str
    version: int
    in_flight: int
    requests: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    response_tokens: int = 0
    steps: int = 0
    updates: int = 0
    failed_updates: int = 0
    paused_s: float = 0.0
    """Total time for which updates held generation."""
    cpu_s: float = 0.0
    """CPU seconds of the engine's process."""
    pid: int = 0
    places: int = 0
    """Requests that it works on in one step."""
    queued: int = 0
    """Requests in line beyond them."""
    cache_share: float = 0.0
    """Share of the KV cache in use: the highest since the last look."""


Sink = Callable[[Reply], None]
"""Called in the engine's event loop, once a step, with everything that finished for it."""


class Engine(Protocol):
    """An engine as its users see it. Start it once; every call after a crash raises `EngineError`."""

    name: str

    @property
    def version(self) -> int: ...

    async def start(self) -> None: ...

    def submit(self, requests: Sequence[SampleRequest], sink: Sink) -> None:
        """Accept a batch. Each request is answered exactly once, by a sample or a failure, unless aborted."""
        ...

    def abort(self, ids: Sequence[str], sink: Sink) -> None:
        """Forget requests of this sink; unknown ids are ignored."""
        ...

    async def sample(self, request: SampleRequest) -> Sample: ...

    async def sample_many(self, requests: Sequence[SampleRequest]) -> list[Sample]: ...

    async def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probability of each token but the first, given those before it, at temperature 1."""
        ...

    async def update_weights(self, update: WeightUpdate) -> UpdateReport: ...

    def stats(self) -> EngineStats: ...

    async def close(self) -> None: ...


class Emitted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one step gave one request."""

    id: int
    ids: list[int]
    logprobs: list[float]
    finish: FinishReason | None
    aborted: bool = False
    """The back end gave the request up (an error of its own)."""


class Core(Protocol):
    """A back end. After `start`, only ever called from one thread, and never re-entered."""

    def start(self) -> None:
        """Load the model. Raises `ModelError` or `ConfigError` with one clear line."""
        ...

    def refusal(self, request: SampleRequest) -> str | None:
        """Why this request can't be served (bad ids, too long); None if it can."""
        ...

    def add(self, ids: Sequence[int], requests: Sequence[SampleRequest], adapter: int | None) -> None: ...

    def abort(self, ids: Sequence[int]) -> None: ...

    def busy(self) -> bool: ...

    def cache_share(self) -> float:
        """Share of the KV cache in use; 0 for a back end without one."""
        ...

    def step(self) -> list[Emitted]: ...

    def drain(self) -> list[Emitted]:
        """Finish what is under way without scheduling more: then nothing of the old weights is pending."""
        ...

    def check(self, update: WeightUpdate) -> str | None:
        """Why this update can't be loaded (unknown names, other shapes); None if it can."""
        ...

    def load(self, staged: Staged | None) -> None:
        """Serve these weights (None: those of the start) and forget all that was computed under others.

        Unfinished requests stay and go on under the new weights.
        """
        ...

    def score(
        self,
        sequences: Sequence[Sequence[int]],
        adapter: int | None,
        pictures: Sequence[Picture | None] = (),
    ) -> list[list[float]]:
        """Score with all other requests held. `pictures`: those of the sequences; none where it is empty."""
        ...

    def add_adapter(self, number: int, path: str) -> None: ...

    def remove_adapter(self, number: int) -> None: ...

    def close(self) -> None: ...


def refusal(
    request: SampleRequest, vocabulary: int, max_model_len: int, reader: PictureReader | None = None
) -> str | None:
    """Why no engine with such a model can serve this request; None if it can. `reader`: of a model that
    sees."""
    ids = request.prompt_ids
    if not ids:
        return "the prompt is empty"
    if min(ids) < 0 or max(ids) >= vocabulary:
        return f"a prompt id is outside the vocabulary of {vocabulary}"
    allowed = request.sampling.allowed_ids
    if allowed and not (min(allowed) >= 0 and max(allowed) < vocabulary):
        return f"an allowed id ({min(allowed)} to {max(allowed)}) is outside the vocabulary of {vocabulary}"
    if len(ids) + request.sampling.max_tokens > max_model_len:
        return (
            f"{len(ids)} prompt ids + {request.sampling.max_tokens} new ones > max_model_len {max_model_len}"
        )
    if reader is not None:
        return reader.refusal(ids, request.image)
    return None if request.image is None else "it has a picture, and this model reads text alone"

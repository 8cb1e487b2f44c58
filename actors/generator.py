"""The memory-policy generator: an actor in front of the `memory` engines that answers agents' questions.

Life: made by `create` → `start` (a model that can't be a memory policy is refused here, in one line) →
`configure` (again whenever engines change) → questions by `submit` and `collect`, as with an engine. Killed
at any moment it takes nothing along: what it was asked is asked again elsewhere, or is late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from actors.batch_client import RayReplica
from actors.engine.client import EngineClient
from actors.outbox import Outbox, Outboxes
from actors.rollout.advising import AdviceReplies, AdviceRequest, Advised, Advising, AdvisingStats, Refusal
from actors.rollout.env_wire import EnvSettings
from agentmem.chaos import hold
from agentmem.chat import ChatCodec, DecisionTokens
from agentmem.config.schema import RunConfig
from agentmem.failures import Failure
from agentmem.sampling import Sampling
from agentmem.trajectory import Split
from agentmem.vision.reader import PictureReader
from envs.prompt_kind import advises_in_messages

if TYPE_CHECKING:
    from ray.actor import ActorHandle

_requests = msgspec.msgpack.Decoder(list[AdviceRequest])
_encoder = msgspec.msgpack.Encoder()


class GeneratorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a generator is told once, at its start."""

    env: EnvSettings
    """Its style writes the prompts."""
    model: str
    """Directory of the memory policy's model."""
    policy: str = "memory"
    template_options: dict[str, Any] = {}
    context_length: int
    hints: dict[Split, Sampling]
    threshold: float = 0.0
    timeout_s: float = 30.0

    @classmethod
    def of(cls, config: RunConfig, *, model: str) -> GeneratorSettings:
        """Of a run. `model`: the directory that `policies.memory.model` resolved to."""
        memory, advice = config.policies["memory"], config.advice
        samplings = {Split.TRAIN: config.rollout.sampling, Split.EVAL: config.evaluation.sampling}
        return cls(
            env=EnvSettings.named(config.env.name, config.env.options, config.env.prompting),
            model=model,
            template_options=memory.template_options,
            context_length=memory.context_length,
            hints={
                split: Sampling(
                    temperature=s.temperature, top_p=s.top_p, top_k=s.top_k, max_tokens=advice.max_tokens
                )
                for split, s in samplings.items()
            },
            threshold=advice.threshold,
            timeout_s=advice.timeout_s,
        )


class MemoryGenerator:
    """Made a Ray actor by `create`. All methods run in one event loop."""

    def __init__(self, settings: GeneratorSettings, name: str) -> None:
        self._settings, self._name = settings, name
        self._outboxes = Outboxes()
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._client: EngineClient
        self._advising: Advising

    async def start(self) -> None:
        """Load the tokenizer, check that model and prompts can serve."""
        settings = self._settings
        style = settings.env.style()
        codec = ChatCodec(settings.model, template_options=settings.template_options)
        codec.check_servable(messages=advises_in_messages(style))
        reader = PictureReader.of(settings.model)
        self._client = EngineClient({}, request_s=settings.timeout_s)
        self._advising = Advising(
            self._name,
            self._client,
            codec,
            DecisionTokens.of(settings.model),
            style,
            settings.hints,
            policy=settings.policy,
            context_length=settings.context_length,
            threshold=settings.threshold,
            timeout_s=settings.timeout_s,
            reader=None if reader is None else reader.check(),
        )

    async def configure(self, engines: Mapping[str, ActorHandle]) -> None:
        """Use exactly these engines from now on."""
        self._client.set_replicas({name: RayReplica(handle) for name, handle in engines.items()})

    async def submit(self, client_id: str, requests: bytes) -> None:
        """Accept an encoded list of `AdviceRequest`. Each is answered, unless it is aborted."""
        outbox = self._outboxes.of(client_id)
        for request in _requests.decode(requests):
            key = (client_id, request.id)
            task = asyncio.create_task(self._answer(request, outbox))
            self._tasks[key] = task
            task.add_done_callback(partial(self._forget, key))

    async def collect(self, client_id: str, max_wait_s: float) -> bytes:
        """Encoded `AdviceReplies`: all that has finished; empty if nothing has within `max_wait_s`."""
        return _encoder.encode(AdviceReplies(*await self._outboxes.of(client_id).collect(max_wait_s)))

    async def abort(self, client_id: str, ids: Sequence[str]) -> None:
        """Forget questions; unknown ids are ignored."""
        for name in ids:
            task = self._tasks.get((client_id, name))
            if task is not None:
                task.cancel()

    async def advise_many(self, requests: Sequence[AdviceRequest]) -> list[Advised]:
        """Answers to several questions, for callers without a client."""
        return await asyncio.gather(*(self._advising.advise(request) for request in requests))

    async def stats(self) -> AdvisingStats:
        """Counters and gauges."""
        return self._advising.stats()

    async def ping(self) -> None:
        """Answers if the event loop does."""

    def _forget(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        self._tasks.pop(key, None)

    async def _answer(self, request: AdviceRequest, outbox: Outbox) -> None:
        try:
            hold("generator.answer")
            outbox.put(AdviceReplies([await self._advising.advise(request)], []))
        except Exception as error:  # whatever it is, the asker is told
            failure = Failure.of(error, where=self._name)
            outbox.put(AdviceReplies([], [Refusal(id=request.id, failure=failure)]))


def create(settings: GeneratorSettings, name: str, **options: Any) -> ActorHandle:
    """Make the Ray actor (not yet started: await `start`, then `configure`). `options` are Ray's."""
    import ray

    env_vars = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    defaults: dict[str, Any] = {
        "num_cpus": 0,
        "max_concurrency": 1000,
        "runtime_env": {"env_vars": env_vars, **options.pop("runtime_env", {})},
    }
    return ray.remote(MemoryGenerator).options(**{**defaults, **options}).remote(settings, name)

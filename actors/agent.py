"""The agent actor: plays tickets of one run with the engines and env workers that it is given.

Life: made by `create` → `start` (a model or an environment that can't serve is refused here, in one line) →
`configure` (again whenever handles change) → `run`, which lasts until `drain` and raises what went wrong.
Killed at any moment, it leaves nothing behind but leases, and these run out.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from actors.advice_client import AdviceClient
from actors.agent_settings import AgentSettings
from actors.batch_client import RayReplica
from actors.engine.client import EngineClient
from actors.env_worker import RayWorker
from actors.rollout.advice import AgentAdvice, check_shows_hints
from actors.rollout.agent_loop import AgentLoop
from actors.rollout.agent_stats import AgentStats
from actors.rollout.endpoint import EndpointPolicy
from actors.rollout.env_session import RemoteEnvs
from actors.rollout.local_env import LocalEnvs
from actors.rollout.policy import Conversation, EnginePolicy
from actors.rollout.remembered import Envs, RememberingEnvs
from actors.rollout.scripted import ScriptedPolicy
from actors.rollout.strategies import strategy_of
from actors.rollout.tips import AgentTips
from actors.rollout.tracing import trial_spans
from actors.rollout.trial import Limits, Progress, play_trial
from agentmem.chat import ChatCodec
from agentmem.endpoint import Endpoint
from agentmem.failures import AgentMemError
from agentmem.memory.embedding import CachedEmbedder, load_embedder
from agentmem.replay import ReplayBuffer
from agentmem.telemetry.tracing import close_traces, open_traces
from agentmem.trajectory import Split, Ticket, Trial
from envs.prompt_kind import acts_in_messages

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer
    from ray.actor import ActorHandle

#: Turns live until their trial is committed, so young collections find little: make them rarer.
GC_THRESHOLDS = (20_000, 20, 20)
TIPS_SETTLE_S = 3.0
"""What tips under way are given at the end."""


class AgentActor:
    """Made a Ray actor by `create`. All methods run in one event loop."""

    def __init__(self, settings: AgentSettings, name: str) -> None:
        self._settings, self._name = settings, name
        self._style = settings.env.style()
        self._limits = {
            Split.TRAIN: Limits(settings.max_turns, settings.trial_token_limit),
            Split.EVAL: Limits(settings.eval_max_turns or settings.max_turns, settings.trial_token_limit),
        }
        self._envs: Envs
        self._workers: RemoteEnvs | None = None
        self._policies: Mapping[Split, EnginePolicy | ScriptedPolicy | EndpointPolicy]
        self._endpoint: Endpoint | None = None
        self._client: EngineClient
        self._generators: AdviceClient | None = None
        self._advice: AgentAdvice | None = None
        self._tips: AgentTips | None = None
        self._traces: TracerProvider | None = None
        self._tracer: Tracer | None = None
        self._loop: AgentLoop
        self._configured = asyncio.Event()

    async def start(self) -> None:
        """Open the buffer, load the tokenizer, check that both can serve. Raises typed errors of one line."""
        settings = self._settings
        gc.set_threshold(*GC_THRESHOLDS)
        buffer = await asyncio.to_thread(
            ReplayBuffer,
            settings.replay_url,
            settings.run,
            settings=settings.replay,
            deadline_s=settings.replay_reconnect_s,
        )
        self._client = EngineClient({}, request_s=settings.sample_timeout_s)
        self._policies = self._made_policies()
        if settings.advice is not None:
            self._generators = AdviceClient({}, timeout_s=settings.advice.timeout_s)
            self._advice = AgentAdvice(
                self._generators, settings.env.name, self._style, settings.advice.every_episode
            )
        if settings.placement == "local":
            self._envs = LocalEnvs(settings.env.make)
        else:
            self._envs = self._workers = RemoteEnvs(self._name, self._style, wait_s=settings.env_wait_s)
        if settings.remember_turns:
            self._envs = RememberingEnvs(self._envs, settings.remember_turns)
        if settings.tips is not None:
            embedder = await asyncio.to_thread(load_embedder, settings.embedder)
            self._tips = AgentTips(buffer, CachedEmbedder(embedder), settings.tips)
        if settings.traces > 0:
            self._traces = open_traces(settings.traces, run=settings.run, process=self._name)
            self._tracer = self._traces.get_tracer("agentmem")
        self._loop = AgentLoop(self._name, buffer, self._play, trials_in_flight=settings.trials_in_flight)

    def _made_policies(self) -> Mapping[Split, EnginePolicy | ScriptedPolicy | EndpointPolicy]:
        """The agent's policy with the sampling parameters of each split. Raises what makes it unfit."""
        settings = self._settings
        by_split = {Split.TRAIN: settings.sampling, Split.EVAL: settings.eval_sampling}
        if settings.endpoint is not None:
            self._endpoint = at = Endpoint(
                settings.endpoint, settings.model, context_length=settings.context_length
            )
            return {
                split: EndpointPolicy(settings.policy, at, by_kind) for split, by_kind in by_split.items()
            }
        if not settings.model:
            player = settings.env.scripted_agent(settings.script)
            return dict.fromkeys(by_split, ScriptedPolicy(settings.policy, player))
        codec = ChatCodec(settings.model, template_options=settings.template_options)
        messages = acts_in_messages(self._style)
        codec.check_servable(messages=messages)
        if settings.advice is not None and messages:
            for style in self._style.each().values():
                check_shows_hints(codec, style)
        return {
            split: EnginePolicy(
                settings.policy,
                self._client,
                codec,
                by_kind,
                context_length=settings.context_length,
                prompt_limit=settings.prompt_limit,
            )
            for split, by_kind in by_split.items()
        }

    async def configure(
        self,
        engines: Mapping[str, ActorHandle],
        env_workers: Mapping[str, tuple[ActorHandle, int]],
        generators: Mapping[str, ActorHandle] | None = None,
    ) -> None:
        """Use exactly these from now on: engines by name, env workers by name with their number of slots,
        memory-policy generators by name."""
        if self._generators is not None:
            self._generators.set_replicas({n: RayReplica(handle) for n, handle in (generators or {}).items()})
        self._client.set_replicas({name: RayReplica(handle) for name, handle in engines.items()})
        if self._workers is not None:
            workers = {n: RayWorker(handle, slots) for n, (handle, slots) in env_workers.items()}
            self._workers.configure(workers)
        self._configured.set()

    async def run(self) -> AgentStats:
        """Play until drained. Raises the cause if it can't go on (the buffer is gone, a bug)."""
        await self._configured.wait()
        await self._loop.run()
        if self._tips is not None:
            await self._tips.settle(TIPS_SETTLE_S)
        await self._client.close()
        if self._generators is not None:
            await self._generators.close()
        if self._endpoint is not None:
            await self._endpoint.close()
        await self._envs.close()
        if self._traces is not None:
            await asyncio.to_thread(close_traces, self._traces)
        return await self.stats()

    async def drain(self, timeout_s: float) -> AgentStats:
        """Stop claiming, let trials finish for a bounded time, give the others back."""
        self._configured.set()
        return await self._loop.drain(timeout_s)

    async def stats(self) -> AgentStats:
        """Counters and gauges."""
        stats = self._loop.stats()
        if self._tips is None:
            return stats
        return replace(stats, tips=asdict(self._tips.counts), tips_pending=self._tips.pending)

    async def ping(self) -> None:
        """Answers if the event loop does."""

    async def _play(self, ticket: Ticket, saved: Trial | None, progress: Progress) -> Trial:
        strategy = strategy_of(ticket.mode)
        split = ticket.task.split
        if ticket.task.environment != self._settings.env.name:
            raise AgentMemError(
                f"ticket {ticket.id} is of environment {ticket.task.environment}, "
                f"this agent plays {self._settings.env.name}"
            )
        conversation = self._policies[split].conversation()
        tips = None
        if self._tips is not None and isinstance(conversation, Conversation):
            tips = self._tips.of(ticket, conversation, self._style.of(ticket.task.domain))
        advisor = None if self._advice is None else self._advice.of(ticket)
        env = await self._envs.open()
        try:
            with trial_spans(self._tracer, ticket) as spans:
                trial = await play_trial(
                    ticket,
                    spans.env(env),
                    spans.policy(conversation),
                    strategy,
                    self._limits[split],
                    saved=saved,
                    progress=progress,
                    tips=tips,
                    advisor=spans.advisor(advisor),
                )
                spans.outcome(trial)
                return trial
        finally:
            await env.close()


def create(settings: AgentSettings, name: str, **options: Any) -> ActorHandle:
    """Make the Ray actor (not yet started: await `start`, then `configure`). `options` are Ray's."""
    import ray

    env_vars = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    defaults: dict[str, Any] = {
        "num_cpus": 0,
        "max_concurrency": 1000,
        "runtime_env": {"env_vars": env_vars, **options.pop("runtime_env", {})},
    }
    return ray.remote(AgentActor).options(**{**defaults, **options}).remote(settings, name)

"""Everything that an agent actor is told once, at its start. Handles of engines and env workers come later,
by `configure`, as often as they change."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from actors.rollout.env_wire import EnvSettings
from actors.rollout.tips import TipRules
from agentmem.config.endpoint import EndpointConfig
from agentmem.config.schema import RunConfig, SamplingConfig
from agentmem.failures import ConfigError
from agentmem.replay import Settings as ReplaySettings
from agentmem.sampling import Sampling
from agentmem.trajectory import TurnKind


class AdviceRules(msgspec.Struct, frozen=True, kw_only=True):
    """How a memory policy is asked."""

    every_episode: bool = False
    timeout_s: float = 30.0
    """After it a trial goes on without a hint."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """See the fields; `of` makes them from a run's configuration."""

    run: str
    replay_url: str
    replay: ReplaySettings = ReplaySettings()
    """Its lease: tickets of an actor that was killed are taken over after it."""
    replay_reconnect_s: float = 60.0
    """How long a buffer's server may be away."""
    env: EnvSettings
    placement: Literal["local", "worker"] = "worker"
    remember_turns: int = 0
    """Outcomes that are remembered, of a deterministic environment (`actors.rollout.remembered`)."""
    model: str
    """Directory with the tokenizer of the policy's model; empty: the environment's scripted agent plays. Of
    an `endpoint`: the model's name there."""
    script: str = ""
    """Which of the environment's scripted agents plays, if one does; empty: the usual one."""
    endpoint: EndpointConfig | None = None
    """Where others serve the policy; its key is read from the environment of the agent actor."""
    policy: str = "agent"
    """The policy's name on its turns, and that of its engines."""
    template_options: dict[str, Any] = {}
    context_length: int = 2048
    prompt_limit: int | None = None
    trial_token_limit: int | None = None
    max_turns: int = 7
    eval_max_turns: int | None = None
    sampling: dict[TurnKind, Sampling]
    eval_sampling: dict[TurnKind, Sampling]
    trials_in_flight: int = 256
    sample_timeout_s: float = 300.0
    tips: TipRules | None = None
    """EMPO²: how tips are read and written; None: no trial has any."""
    advice: AdviceRules | None = None
    """Mem-π: how a memory policy is asked; None: no trial is advised."""
    embedder: Literal["minilm", "words"] = "minilm"
    traces: float = 0.0
    """Share of the trials that are traced (`agentmem.telemetry.tracing`), in [0, 1]."""
    env_wait_s: float = 120.0
    """How long a trial waits while there is no env worker at all."""

    def __post_init__(self) -> None:
        if self.placement == "local" and not self.env.light:
            raise ConfigError(
                f"env.placement is 'local': environment {self.env.name} isn't declared light, so it must run "
                "in env workers (env.placement: worker)"
            )

    @classmethod
    def of(
        cls, config: RunConfig, *, run: str, replay_url: str, replay: ReplaySettings, model: str
    ) -> AgentSettings:
        """The settings of a run's agents. `model`: the directory that `policies.agent.model` resolved to,
        empty where none is served here."""
        agent, rollout, tips = config.policies["agent"], config.rollout, config.memory.tips
        rules = TipRules(
            key=tips.key,
            scope=tips.scope,
            capacity=tips.capacity,
            recalled=tips.recalled,
            min_cosine=tips.min_cosine,
            pending=tips.pending,
        )
        return cls(
            run=run,
            replay_url=replay_url,
            replay=replay,
            replay_reconnect_s=config.replay.reconnect_s,
            env=EnvSettings.named(
                config.env.name, config.env.options, config.env.prompting, config.env.step_wait_s
            ),
            placement=config.env.placement,
            remember_turns=config.env.remember_turns,
            model=model or ("" if agent.script is not None else agent.model),
            script=agent.script or "",
            endpoint=agent.endpoint,
            template_options=agent.template_options,
            context_length=agent.context_length,
            prompt_limit=rollout.prompt_limit,
            trial_token_limit=rollout.trial_token_limit,
            max_turns=config.env.max_turns,
            eval_max_turns=config.env.eval_max_turns,
            sampling=by_kind(rollout.sampling, tips.max_tokens),
            eval_sampling=by_kind(config.evaluation.sampling, tips.max_tokens),
            tips=rules if config.tipped else None,
            embedder=config.memory.embedder,
            traces=config.telemetry.traces,
            trials_in_flight=config.agents.trials_in_flight,
            sample_timeout_s=config.engines["agent"].sample_timeout_s if agent.served else 1.0,
            advice=AdviceRules(
                every_episode=config.advice.every == "episode", timeout_s=config.advice.timeout_s
            )
            if config.advised
            else None,
        )


def by_kind(config: SamplingConfig, tip_tokens: int) -> dict[TurnKind, Sampling]:
    """Sampling parameters of each kind of turn that the agent's policy writes."""

    def sampling(max_tokens: int) -> Sampling:
        return Sampling(
            temperature=config.temperature, top_p=config.top_p, top_k=config.top_k, max_tokens=max_tokens
        )

    return {
        TurnKind.ACT: sampling(config.max_tokens),
        TurnKind.REFLECT: sampling(config.reflect_max_tokens),
        TurnKind.TIP: sampling(tip_tokens),
    }

"""The configuration tree. An unknown key, a wrong type or an impossible combination is an error.

A field's documentation is the string under it. Times are in seconds, sizes in the unit of the field's name.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from agentmem.config.advice import AdviceConfig, Refuse
from agentmem.config.advice import check as check_advice
from agentmem.config.endpoint import EndpointConfig
from agentmem.config.learning import CreditConfig, LearnerConfig, ObjectiveConfig
from agentmem.config.scaling import ScalingConfig
from agentmem.config.scaling import check as check_scaling
from agentmem.config.section import Count, Fraction, NonNegative, Positive, Section


class EnvConfig(Section):
    """The world that is played."""

    name: str
    """A name of `agentmem envs list`."""
    options: dict[str, Any] = Field(default={})
    """The environment's own options (checked by the environment)."""
    prompting: Literal["recipe", "zero-shot", "react"] = "recipe"
    """How a language model is asked for its action: as the environment's prompts do, for the action alone, or
    for a thought and then the action. Needs prompts in chat messages."""
    placement: Literal["local", "worker"] = "worker"
    """`local`: in the agent actor's process, for environments declared light. `worker`: in env workers."""
    workers: Count = 1
    """Number of env workers (placement `worker`)."""
    slots_per_worker: Count = 16
    """Environments that one worker holds at once."""
    remember_turns: NonNegative = 0
    """Outcomes that each agent actor remembers, so that a course played before isn't played again (for
    environments that are deterministic; an outcome takes some 500 bytes); 0: none."""
    step_timeout_s: Positive = 60.0
    """A step or reset that takes longer fails its trial's attempt, and its slot is replaced."""
    start_timeout_s: Positive = 120.0
    """The same for the first reset in a new process, which may start a JVM or a browser."""
    step_wait_s: Annotated[float, Field(ge=0)] = 0.0
    """Wait so long before each step, to spare a server behind the environment, or to try a run at the pace of
    a slower one. Light environments of one worker wait one after another (placement `worker`)."""
    memory_limit_mib: Count | None = None
    """Memory of one environment's process with all below it. Beyond it the process is replaced, as after a
    hang; beyond four fifths of it, as soon as it is free."""
    max_turns: Count = 7
    """Turns of an episode before it stops by step_limit."""
    eval_max_turns: Count | None = None
    """The same in evaluation; as in training if absent."""
    invalid_penalty: Annotated[float, Field(ge=0)] = 0.1
    """Subtracted from the *learning* reward of an unparsable turn. Success rates never see it."""


class SamplingConfig(Section):
    """How tokens are sampled."""

    temperature: Positive = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: NonNegative = 0
    """0: all tokens."""
    max_tokens: Count = 512
    """Longest response to an act prompt."""
    reflect_max_tokens: Count = 512
    """Longest reflection."""


class RolloutConfig(Section):
    """How trials are played."""

    episodes: Annotated[int, Field(ge=1, le=100)] = 3
    """Most episodes of a trial (N). 1 is plain single-episode RL."""
    group_size: Annotated[int, Field(ge=1, le=1024)] = 8
    """Trials of one task (M)."""
    tasks_per_update: Annotated[int, Field(ge=1, le=65536)] = 16
    """Groups of one update."""
    memory: Literal["none", "history", "reflection", "both"] = "history"
    """What an episode's prompt carries of earlier episodes."""
    sampling: SamplingConfig = SamplingConfig()
    trial_token_limit: Count | None = None
    """Sampled tokens of a trial before its episode stops by token_limit."""
    prompt_limit: Count | None = None
    """Longest prompt in tokens; beyond it the episode stops by context_exhausted."""


class TipsConfig(Section):
    """EMPO²'s tips: who reads them when, and how they are kept (method `empo2`)."""

    p: Fraction = 0.25
    """Probability that an update's trials are rolled out with tips in their prompts."""
    q: Fraction = 2 / 3
    """After a rollout with tips: probability that the update trains on the prompts without them."""
    key: Literal["observation", "chat"] = "observation"
    """What a situation is found by: its observation, or the whole prompt (of which an embedder reads the
    beginning only)."""
    scope: Literal["instance", "environment"] = "instance"
    """A book of tips for each instance, or one for all of them."""
    capacity: Count = 1000
    """Tips of a book; beyond it the oldest go."""
    recalled: Count = 10
    """Most tips in one prompt: of those that are near enough, the ones with the best scores."""
    min_cosine: Annotated[float, Field(ge=-1, le=1)] = 0.5
    """Tips whose situation isn't nearer than this are none for the present one."""
    max_tokens: Count = 128
    """Longest tip."""
    pending: Count = 256
    """Tips that an agent actor writes at once, beside its trials. Beyond it episodes go without, counted."""


class NoveltyConfig(Section):
    """EMPO²'s intrinsic reward (method `empo2`)."""

    coefficient: Annotated[float, Field(ge=0)] = 0.1
    """c of r = r_ext + c · reward_scale · r_int; 0: none."""
    reward_scale: Positive = 1.0
    """The size of the environment's rewards (10 where a success pays 10)."""
    tau: Annotated[float, Field(ge=-1, le=1)] = 0.9
    """Observations at least so near (cosine) are one state."""
    scope: Literal["instance", "environment"] = "instance"
    """Whose visits are counted together."""
    modes: list[Literal["plain", "tips", "off_policy"]] = Field(default=["plain", "tips", "off_policy"])
    """Modes whose trials are paid for novelty."""


class MemoryConfig(Section):
    """Memory beyond a trial: EMPO²'s tips and counts of states."""

    embedder: Literal["minilm", "words"] = "minilm"
    """What finds similar situations: all-MiniLM-L6-v2, or hashed words (no model; for tiny vocabularies)."""
    tips: TipsConfig = TipsConfig()
    novelty: NoveltyConfig = NoveltyConfig()


class LoraConfig(Section):
    """Low-rank adapters instead of full weights."""

    rank: Count = 16
    alpha: Positive = 32.0
    targets: list[str] | Literal["all-linear"] = "all-linear"
    push: Literal["merged", "adapter"] = "merged"
    """What engines get: merged weights, or the adapter alone."""


class WarmupConfig(Section):
    """Behaviour cloning of poor legal play, which gives a tiny model its format (`model: tiny`)."""

    steps: Count = 750
    batch_rows: Count = 256
    lr: Positive = 3e-3
    notes: bool = False
    """Demonstrate reflections, too (recipes whose policy writes its memory)."""
    seed: int = 0


SCRIPTED = "scripted"


class PolicyConfig(Section):
    """A named policy: its model and whether it is trained."""

    model: str
    """`tiny` (made and warmed up here), `tiny-vision` (a memory policy that sees), `smollm2`, or a Hugging
    Face name or path. `scripted`: the player that the environment offers (for an agent that isn't trained; it
    needs neither model nor engines); `scripted:NAME`: another one of its players."""
    endpoint: EndpointConfig | None = None
    """Where an agent that isn't trained is served by others; `model` is then its name there."""
    trained: bool = True
    dtype: Literal["float32", "bfloat16"] = "float32"
    context_length: Count = 2048
    """Prompt and response together, in tokens."""
    template_options: dict[str, Any] = Field(default={})
    """Given to the model's chat template. Qwen3 without thinking: {enable_thinking: false}."""
    lora: LoraConfig | None = None
    warmup: WarmupConfig = WarmupConfig()

    @property
    def script(self) -> str | None:
        """Which of the environment's players it is, empty for the usual one; None: it is a model."""
        kind, _, name = self.model.partition(":")
        return name if kind == SCRIPTED else None

    @property
    def served(self) -> bool:
        """Whether engines of this run serve it."""
        return self.script is None and self.endpoint is None


class EngineConfig(Section):
    """The engines of one policy."""

    backend: Literal["vllm", "torch"] = "vllm"
    replicas: Count = 1
    tensor_parallel: Count = 1
    """GPUs that one engine spans."""
    gpus: Annotated[float, Field(ge=0)] = 0
    """GPUs of one replica; 0 runs on the CPU."""
    max_num_seqs: Count = 128
    """Sequences in one forward pass. About half of what is in flight keeps a next wave queued."""
    kv_cache_gib: Count = 1
    """CPU engines: room for the KV cache."""
    gpu_memory_utilization: Fraction = 0.9
    enforce_eager: bool = False
    sample_timeout_s: Positive = 300.0
    start_timeout_s: Positive = 600.0


class AgentsConfig(Section):
    """Agent actors."""

    replicas: Count = 1
    trials_in_flight: Annotated[int, Field(ge=1, le=65536)] = 256
    """Trials that one agent actor plays at once: each is sequential, together they fill a batch."""


class GeneratorsConfig(Section):
    """Memory-policy generators (method `mempi`): actors between the agents and `engines.memory`."""

    replicas: Count = 1


class ReplayConfig(Section):
    """The replay buffer and its server."""

    url: str | None = None
    """redis://, rediss:// or unix://; absent: an embedded server. `redis://***@host` takes the password from
    AGENTMEM_REDIS_PASSWORD."""
    reconnect_s: Positive = 60.0
    """How long a server that died or froze is waited for. More than `supervision.ping_timeout_s`."""
    byte_budget_mib: Count = 512
    lease_s: Positive = 60.0
    max_staleness: NonNegative = 1
    """Updates that groups may be rolled out ahead of the trained version."""
    hard_staleness: NonNegative = 8
    """Groups older than this are dropped, as the last resort, and counted as expired."""
    min_group: Count = 2
    """Valid members that a group needs to be trained; a group with fewer is filtered."""
    max_attempts: Count = 3
    """Attempts of a ticket before it is a dead letter."""
    fraction: Fraction = 0.0
    """Share of an update's groups drawn from the `replay` table."""
    table_groups: Count = 256
    """Most groups of the `replay` table (with `fraction` 0 there is none)."""
    max_samples: Count = 4
    """Times that a group may be drawn from the `replay` table."""


class WeightsConfig(Section):
    """How new weights reach the engines."""

    transport: Literal["files", "nccl", "ipc"] = "files"
    every: Count = 1
    """Updates between pushes."""
    phase_timeout_s: Positive = 60.0
    """Deadline of each phase of a push."""
    verify_tolerance: Positive = 1e-3
    """Largest difference of the probe's log-probs between learner and engine (raise it for bfloat16)."""
    retries: NonNegative = 2


class EvaluationConfig(Section):
    """Held-out evaluation."""

    tasks: NonNegative = 512
    every: NonNegative = 0
    """Updates between evaluations during training; 0: only before and after."""
    episodes: Count = 3
    sampling: SamplingConfig = SamplingConfig(temperature=0.7)
    conditions: list[Literal["with_memory", "without_memory"]] = Field(
        default=["with_memory", "without_memory"]
    )
    seed: int = 0


class SupervisionConfig(Section):
    """Restarts, watchdog, end of the run."""

    restart_budget: NonNegative = 5
    """Restarts of one kind of actor before the run fails."""
    ping_timeout_s: Positive = 20.0
    """A part that answers no ping for so long is frozen: it is ended and replaced. A slow one answers."""
    stall_timeout_s: Positive = 300.0
    """No progress for so long ends the run, naming what it waits for."""
    drain_timeout_s: Positive = 10.0


class TelemetryConfig(Section):
    """Metrics."""

    backend: Literal["prometheus", "ray", "none"] = "prometheus"
    """An endpoint of the driver's own; or Ray's on every node, where names begin with `ray_`; or none."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Port of the endpoint of `prometheus`; 0 picks a free one (printed at start)."""
    traces: Fraction = 0.0
    """Share of the trials that OpenTelemetry gets as a trace (OTEL_EXPORTER_OTLP_ENDPOINT); 0: none."""
    sinks: list[Literal["tensorboard", "wandb", "mlflow"]] = []
    """Where `metrics.jsonl` is published, too; each needs the extra of its name."""


class RunConfig(Section):
    """Everything that a run is made of."""

    recipe: str = ""
    method: Literal["lamer", "rl", "empo2", "mempi", "mempi-stage1"] = "lamer"
    seed: NonNegative = 0
    env: EnvConfig
    rollout: RolloutConfig = RolloutConfig()
    memory: MemoryConfig = MemoryConfig()
    advice: AdviceConfig = AdviceConfig()
    policies: dict[str, PolicyConfig]
    engines: dict[str, EngineConfig]
    agents: AgentsConfig = AgentsConfig()
    generators: GeneratorsConfig = GeneratorsConfig()
    credit: CreditConfig = CreditConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    learner: LearnerConfig = LearnerConfig()
    replay: ReplayConfig = ReplayConfig()
    weights: WeightsConfig = WeightsConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    supervision: SupervisionConfig = SupervisionConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    scaling: ScalingConfig = ScalingConfig()

    @property
    def advised(self) -> bool:
        """Whether a memory policy advises the agent."""
        return self.method == "mempi"

    @property
    def tipped(self) -> bool:
        """Whether the agent writes tips and reads them."""
        return self.method == "empo2" or (self.advised and self.advice.tips)

    @property
    def learning(self) -> str:
        """The name of the policy that the method trains."""
        return "memory" if self.method in ("mempi", "mempi-stage1") else "agent"

    @property
    def served(self) -> tuple[str, ...]:
        """The policies that engines of this run serve while it plays, the agent's first."""
        roles = ("agent", "memory") if self.advised else ("agent",)
        return tuple(name for name in roles if self.policies[name].served)

    def _check_frozen(self, name: str, policy: PolicyConfig, refuse: Refuse) -> None:
        """A policy without engines here: a script, or at an endpoint."""
        scripted = policy.script is not None
        key = f"policies.{name}.model" if scripted else f"policies.{name}.endpoint"
        found = policy.model if scripted else policy.endpoint and policy.endpoint.url
        if name != "agent":
            refuse(key, found, "only policy 'agent' can be a script or at an endpoint")
        if scripted and policy.endpoint is not None:
            refuse(f"policies.{name}.endpoint", policy.endpoint.url, "a script needs none")
        if policy.trained:
            refuse(f"policies.{name}.trained", True, f"{key} names what can't be trained (false)")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        def refuse(key: str, found: object, allowed: str) -> None:
            raise ValueError(f"{key} is {found!r}: {allowed}")

        if "agent" not in self.policies:
            refuse("policies", sorted(self.policies), "a policy named 'agent' is needed")
        for name, policy in self.policies.items():
            if not policy.served:
                self._check_frozen(name, policy, refuse)
            if policy.served and name not in self.engines:
                refuse("engines", sorted(self.engines), f"policy '{name}' needs engines of the same name")
        for name, engine in self.engines.items():
            if name not in self.policies:
                refuse(f"engines.{name}", name, f"no such policy; policies are {sorted(self.policies)}")
            if engine.tensor_parallel > 1 and engine.gpus < engine.tensor_parallel:
                refuse(
                    f"engines.{name}.tensor_parallel",
                    engine.tensor_parallel,
                    f"needs engines.{name}.gpus >= {engine.tensor_parallel}, found {engine.gpus}",
                )
        if self.learning == "agent" and not self.policies["agent"].trained:
            refuse("policies.agent.trained", False, f"method '{self.method}' trains it (true)")
        if self.method == "rl" and self.rollout.episodes != 1:
            refuse(
                "rollout.episodes",
                self.rollout.episodes,
                "method 'rl' plays 1 episode (method 'lamer': more)",
            )
        if self.rollout.group_size < 2 and self.credit.estimator != "ppo":
            refuse(
                "rollout.group_size",
                1,
                f"credit.estimator '{self.credit.estimator}' compares at least 2 trials",
            )
        if self.replay.min_group > self.rollout.group_size:
            refuse(
                "replay.min_group",
                self.replay.min_group,
                f"must be at most rollout.group_size ({self.rollout.group_size})",
            )
        if self.replay.hard_staleness < self.replay.max_staleness:
            refuse(
                "replay.hard_staleness",
                self.replay.hard_staleness,
                f"must be at least replay.max_staleness ({self.replay.max_staleness})",
            )
        if self.replay.max_staleness == 0 and self.weights.every > 1:
            refuse(
                "weights.every",
                self.weights.every,
                "replay.max_staleness 0 trains on the current version only, so each update is pushed (1)",
            )
        if self.replay.reconnect_s <= self.supervision.ping_timeout_s:
            refuse(
                "replay.reconnect_s",
                self.replay.reconnect_s,
                f"must be more than supervision.ping_timeout_s ({self.supervision.ping_timeout_s:g}), after "
                "which a frozen server is replaced",
            )
        if self.weights.transport in ("nccl", "ipc") and any(
            self.engines[n].gpus == 0 for n, p in self.policies.items() if p.trained
        ):
            refuse("weights.transport", self.weights.transport, "needs engines on GPUs; on CPUs use 'files'")
        if self.env.placement == "local" and self.env.workers > 1:
            refuse("env.workers", self.env.workers, "env.placement 'local' has no workers; use 'worker'")
        if self.env.placement == "local" and self.env.step_wait_s > 0:
            refuse(
                "env.step_wait_s", self.env.step_wait_s, "env.placement 'local' can't wait (0); use 'worker'"
            )
        agent = self.policies["agent"]
        if self.method == "empo2" and self.credit.estimator == "ppo":
            refuse(
                "credit.estimator",
                "ppo",
                "method 'empo2' compares trials of a group; use 'grpo', 'rloo' or 'gigpo'",
            )
        if self.method == "empo2" and self.memory.tips.max_tokens >= agent.context_length:
            refuse(
                "memory.tips.max_tokens",
                self.memory.tips.max_tokens,
                f"must be below policies.agent.context_length ({agent.context_length})",
            )
        if self.method in ("mempi", "mempi-stage1"):
            check_advice(self, refuse)
        check_scaling(self, refuse)
        samplings = {"rollout": self.rollout.sampling, "evaluation": self.evaluation.sampling}
        for section, sampling in samplings.items():
            longest = max(sampling.max_tokens, sampling.reflect_max_tokens)
            if longest >= agent.context_length:
                refuse(
                    f"{section}.sampling.max_tokens",
                    longest,
                    f"must be below policies.agent.context_length ({agent.context_length})",
                )
        return self

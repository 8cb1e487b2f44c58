"""Mem-π's section: the groups that decisions are compared in, the loss, the distillation of Stage 1.

The published method is the default. Its ablations are settings: `gate: none` (the naive sum), `structured:
false` (decisions are sampled), `length_coef: 0` (no length term), no Stage 1 (`policies.memory.model` names a
model that only got the decision tokens), and one unified stage (such a model, and `distil_coef` above 0). The
KL term holds Stage 2 to the model that it starts from, whichever that is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from agentmem.config.section import Count, Fraction, Positive, Section

if TYPE_CHECKING:
    from agentmem.config.schema import RunConfig

Branch = Literal["free", "generate", "abstain"]
"""Who decides in a trial: the memory policy, or the group's structure."""


class Stage1Config(Section):
    """Stage 1: the experience bank's hints are learnt by heart (method `mempi-stage1`)."""

    bank: str | None = None
    """File of the experience bank, as `agentmem bank build` writes it."""
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of the bank's tasks whose hints are measured after each epoch, and not learnt; 0: none."""
    lr: Positive = 1e-5
    """Peak of a cosine that falls to 0."""
    epochs: Count = 3
    batch: Count = 64
    """Records of one optimiser step, over all ranks."""
    warmup: Fraction = 0.03
    """Share of the steps in which the learning rate rises."""
    max_prompt: Annotated[int, Field(ge=2)] = 8192
    """Tokens of a prompt; of a longer one head and tail are kept."""
    max_target: Count = 256
    """Tokens of a hint; a longer one is cut, and then nothing teaches it to end there."""


class AdviceConfig(Section):
    """Mem-π: a memory policy that decides whether to give a hint, and writes it (method `mempi`)."""

    group: Annotated[int, Field(ge=2)] = 8
    """G: branches of a context. One abstains, the others generate a hint each."""
    runs_abstain: Count = 2
    """Trials of the branch that abstains: their mean is its reward R_0."""
    structured: bool = True
    """False: no branch is forced; each of G trials samples its decision."""
    max_tokens: Count = 256
    """L_max, the longest hint."""
    length_coef: Annotated[float, Field(ge=0)] = 0.1
    """λ: what a hint of L_max tokens costs, in the unit of the reward."""
    std_floor: Positive = 0.1
    """s0: advantages are divided by a standard deviation of at least this (in the unit of the reward)."""
    gate: Literal["hard", "none"] = "hard"
    """`hard`: hints of a context teach only where generating beats abstaining (Δ > 0). `none`: always."""
    decision_coef: Annotated[float, Field(ge=0)] = 1.0
    """λ_d: weight of the decisions' loss beside that of the hints."""
    kl_coef: Annotated[float, Field(ge=0)] = 0.01
    """β: weight of the KL to the model that Stage 2 starts from."""
    distil_coef: Annotated[float, Field(ge=0)] = 0.0
    """Weight of Stage 1's loss in the updates of Stage 2 (one unified stage), on records of
    `stage1.bank`; 0: none."""
    distil_batch: Count = 64
    """Records of the bank in each update, where `distil_coef` is above 0."""
    reward: Literal["success", "score"] = "success"
    """A trial's task reward: 1 or 0, or the benchmark's own score."""
    threshold: float = 0.0
    """τ: outside training a hint is generated if the logit of [GENERATE] is larger by more than this."""
    every: Literal["trial", "episode"] = "trial"
    """`trial`: advice before the first episode, credited with the trial. `episode`: before each episode,
    credited with that one."""
    tips: bool = False
    """The agent writes tips (EMPO²) after training episodes, and is shown them beside the hints in a share
    `memory.tips.p` of the updates; as it isn't trained, no update is off policy. Evaluations show no tips."""
    timeout_s: Positive = 30.0
    """A hint that takes longer is none: the agent goes without."""
    stage1: Stage1Config = Stage1Config()

    def branches(self) -> tuple[Branch, ...]:
        """The branch of each trial of a context, by member number: what its ticket's mode carries."""
        if not self.structured:
            return tuple("free" for _ in range(self.group))
        trials = self.runs_abstain + self.group - 1
        return tuple("abstain" if member < self.runs_abstain else "generate" for member in range(trials))


def unadvised(config: RunConfig) -> RunConfig:
    """The same without a memory policy: its agent plays as in plain trials, and no engine or generator of a
    memory policy is started or needs to be there."""
    if config.learning == "agent":
        return config
    return config.model_copy(update={"method": "lamer"})


Refuse = Callable[[str, object, str], None]


def check(config: RunConfig, refuse: Refuse) -> None:
    """Call `refuse` with the first setting that a run of Mem-π can't have, what was found and what can be."""
    method, advice = config.method, config.advice
    memory = config.policies.get("memory")
    if memory is None or not memory.trained:
        refuse("policies", sorted(config.policies), f"method '{method}' trains a policy named 'memory'")
        return
    if memory.lora is not None and memory.lora.push == "adapter":
        refuse(
            "policies.memory.lora.push",
            "adapter",
            f"method '{method}' trains the decision tokens, too, which an adapter doesn't hold; use 'merged'",
        )
    if method == "mempi-stage1" or advice.distil_coef > 0:
        longest = advice.stage1.max_prompt + advice.stage1.max_target + 1
        if longest > memory.context_length:
            refuse(
                "advice.stage1.max_prompt",
                advice.stage1.max_prompt,
                f"with a decision and advice.stage1.max_target ({advice.stage1.max_target}) it must fit into "
                f"policies.memory.context_length ({memory.context_length})",
            )
    if method == "mempi-stage1":
        return
    if config.policies["agent"].trained:
        refuse("policies.agent.trained", True, f"method '{method}' leaves the agent as it is (false)")
    if advice.tips and not config.policies["agent"].served:
        agent = config.policies["agent"].model
        refuse(
            "advice.tips", True, f"policies.agent.model '{agent}' isn't on an engine here, so it writes none"
        )
    if advice.max_tokens >= memory.context_length:
        refuse(
            "advice.max_tokens",
            advice.max_tokens,
            f"must be below policies.memory.context_length ({memory.context_length})",
        )
    trials = len(advice.branches())
    if config.rollout.group_size != trials:
        refuse(
            "rollout.group_size",
            config.rollout.group_size,
            f"the trials of a context are {trials}, by advice.group and advice.runs_abstain",
        )
    taken: tuple[tuple[str, object, object, str], ...] = (
        ("objective.kl_coef", config.objective.kl_coef, 0.0, "use advice.kl_coef"),
        ("objective.normalise", config.objective.normalise, "token", "decisions and hints have a mean each"),
        ("credit.scale_by_rms", config.credit.scale_by_rms, False, "advice.std_floor sets the scale"),
    )
    for key, found, allowed, why in taken:
        if found != allowed:
            refuse(key, found, f"method '{method}' has {allowed!r} here ({why})")
    if config.credit.estimator == "ppo":
        refuse("credit.estimator", "ppo", f"method '{method}' compares branches and has no value head")

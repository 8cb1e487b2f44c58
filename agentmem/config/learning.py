"""What is learnt from trials, and how: credit, the loss, the learner group."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agentmem.config.section import Beta, Count, Fraction, NonNegative, Positive, Section


class CreditConfig(Section):
    """Returns and advantages (algorithms.md, section 1)."""

    estimator: Literal["gigpo", "grpo", "rloo", "ppo"] = "gigpo"
    return_form: Literal["paper", "chained"] = "paper"
    gamma_step: Fraction = 0.95
    gamma_traj: Fraction = 0.6
    gae_lambda: Fraction = 0.95
    baseline: Literal["trial", "episode"] = "episode"
    """GRPO and RLOO: peers are whole trials, or episodes of the same index."""
    norm: Literal["mean", "mean_std"] = "mean"
    omega: Annotated[float, Field(ge=0)] = 1.0
    """GiGPO: weight of the step term."""
    anchor_scope: Literal["trial", "episode"] = "trial"
    """GiGPO: rows of identical observation are peers in all episodes, or in those of the same index."""
    scale_by_rms: bool = False
    """Divide the update's advantages by their root mean square."""
    train_reflections: bool = True
    """False: reflections are written and read, but their rows carry no gradient (an ablation)."""
    drop_zero_advantage: bool = True
    """Rows of zero advantage carry no gradient: leave them out of the update."""


class ObjectiveConfig(Section):
    """The policy loss (algorithms.md, section 4)."""

    clip_low: Positive = 0.2
    clip_high: Positive = 0.2
    old: Literal["recompute", "engine"] = "recompute"
    """Old log-probs: a forward pass at the start of the update, or what the engine reported."""
    importance: Literal["truncate", "mask", "none"] = "truncate"
    """What happens to exp(old − engine) above the cap."""
    importance_cap: Positive = 2.0
    kl_coef: Annotated[float, Field(ge=0)] = 0.0
    entropy_coef: Annotated[float, Field(ge=0)] = 0.0
    value_coef: Annotated[float, Field(ge=0)] = 0.5
    normalise: Literal["token", "sequence", "trial"] = "token"
    off_policy_old: Literal["behaviour", "student"] = "behaviour"
    """EMPO²'s off-policy update: old log-probs of the prompt with tips (the engine's), or of the one without
    (a forward pass at the start of the update)."""
    mask_delta: Annotated[float, Field(ge=0, lt=1)] = 0.006737946999085467
    """EMPO²'s off-policy update: a token less likely than this loses its advantage term (e⁻⁵); 0: none."""
    mask_scope: Literal["token", "turn"] = "token"
    """Whether an unlikely token loses its own term, or that of its whole turn."""
    mask_source: Literal["student", "behaviour"] = "student"
    """Whose probability counts: that of the prompt without tips, or the sampler's."""


class LearnerConfig(Section):
    """The learner group."""

    ranks: Count = 1
    gpus_per_rank: Annotated[float, Field(ge=0)] = 0
    zero_stage: Annotated[int, Field(ge=0, le=3)] = 0
    updates: Count = 200
    lr: Positive = 1e-6
    betas: tuple[Beta, Beta] = Field(default=(0.9, 0.95), strict=False)
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    warmup_updates: NonNegative = 5
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    min_lr_ratio: Fraction = 0.1
    minibatches: Count = 1
    """Optimiser steps of one pass over the update's rows."""
    epochs: Count = 1
    grad_clip: Positive = 1.0
    token_budget: Count = 16384
    """Tokens of one micro-batch."""
    plan: Literal["auto", "sorted", "packed"] = "auto"
    """`sorted`: by length, padded (fastest on CPUs). `packed`: one row (GPUs). `auto` picks by device."""
    gradient_checkpointing: bool = False
    """Compute activations again in the backward pass: far less memory for about a third more time."""
    merge_turns: bool = True
    """Train turns whose prompts extend each other as one sequence."""
    checkpoint_every: Count = 50
    """Updates between checkpoints."""
    keep_checkpoints: Count = 2
    max_bad_updates: Count = 5
    """Updates in a row without a usable gradient (non-finite values) before the run stops."""
    timeout_s: Positive = 600.0
    """Deadline of one phase of an update (across ranks)."""

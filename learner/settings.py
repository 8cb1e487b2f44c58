"""What a learner rank has to know, as one picklable value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from agentmem.config.advice import AdviceConfig
from agentmem.config.learning import CreditConfig, LearnerConfig, ObjectiveConfig
from agentmem.config.schema import LoraConfig, MemoryConfig, WeightsConfig


@dataclass(frozen=True, slots=True)
class RankSettings:
    """Settings of all ranks of one policy's learner."""

    policy: str
    """Name of the trained policy: only its turns are trained."""
    model: str
    """Directory (or name) in Hugging Face format."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    lora: LoraConfig | None = None
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    credit: CreditConfig = field(default_factory=CreditConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    weights: WeightsConfig = field(default_factory=WeightsConfig)
    memory: MemoryConfig | None = None
    """EMPO²: how new states are paid; None: they aren't."""
    advice: AdviceConfig | None = None
    """Mem-π: how a memory policy is trained; None: an agent is."""
    invalid_penalty: float = 0.1
    seed: int = 0
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory for a third more time."""
    weights_dir: str = ""
    """Where snapshots for the engines are published (shared by learner and engines)."""
    probe: tuple[tuple[int, ...], ...] = ()
    """Sequences by which engines verify new weights; empty: fixed pseudo-random ones are made."""

    @property
    def has_values(self) -> bool:
        """Whether a value head is trained (PPO)."""
        return self.advice is None and self.credit.estimator == "ppo"

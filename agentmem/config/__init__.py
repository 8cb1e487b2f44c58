"""One strict configuration tree: a recipe (YAML in `agentmem/recipes/`), overridden by `--set key=value`."""

from agentmem.config.advice import AdviceConfig, Stage1Config, unadvised
from agentmem.config.learning import CreditConfig, LearnerConfig, ObjectiveConfig
from agentmem.config.load import list_recipes, load_config, to_yaml
from agentmem.config.schema import (
    AgentsConfig,
    EngineConfig,
    EnvConfig,
    EvaluationConfig,
    LoraConfig,
    PolicyConfig,
    ReplayConfig,
    RolloutConfig,
    RunConfig,
    SamplingConfig,
    SupervisionConfig,
    TelemetryConfig,
    WarmupConfig,
    WeightsConfig,
)

__all__ = [
    "AdviceConfig",
    "AgentsConfig",
    "CreditConfig",
    "EngineConfig",
    "EnvConfig",
    "EvaluationConfig",
    "LearnerConfig",
    "LoraConfig",
    "ObjectiveConfig",
    "PolicyConfig",
    "ReplayConfig",
    "RolloutConfig",
    "RunConfig",
    "SamplingConfig",
    "Stage1Config",
    "SupervisionConfig",
    "TelemetryConfig",
    "WarmupConfig",
    "WeightsConfig",
    "list_recipes",
    "load_config",
    "to_yaml",
    "unadvised",
]

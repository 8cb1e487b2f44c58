"""That nothing is evaluated which is trained on, also where domains of a mixture are of one environment."""

from __future__ import annotations

from agentmem.config.schema import EnvConfig, EvaluationConfig
from agentmem.evaluation.held_out import check_held_out, evaluation_instances


def check_apart(trained: EnvConfig, evaluated: EnvConfig, evaluation: EvaluationConfig, seeds: int) -> None:
    """Refuse an evaluation one of whose instances is in the training split of `trained`.

    `seeds`: how many evaluations there are, from `evaluation.seed` on. Raises ConfigError naming the
    instance, EnvSetupError where instances can't be listed.
    """
    from envs.domains import parted
    from envs.registry import instances, parts

    train = parts(trained.name, trained.options, "train")
    held_out = instances(evaluated.name, evaluated.options, "eval")
    environments = {p.domain: p.environment for p in parts(evaluated.name, evaluated.options, "eval")}
    for seed in range(evaluation.seed, evaluation.seed + seeds):
        chosen = [parted(instance) for instance in evaluation_instances(held_out, evaluation.tasks, seed)]
        for part in train:
            own = [instance for domain, instance in chosen if environments[domain] == part.environment]
            check_held_out(part.instances, own)

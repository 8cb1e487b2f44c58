"""What `agentmem eval` is given: a run with a final model, or a recipe; prompting baselines as settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentmem.app.reporting.rundir import RunDir
from agentmem.config import RunConfig, list_recipes, load_config
from agentmem.config.load import from_tree, override
from agentmem.failures import ConfigError


@dataclass(frozen=True, slots=True)
class Target:
    """What is evaluated."""

    name: str
    config: RunConfig
    model: Path | None
    """None: the policy's own."""
    trained: RunConfig | None = None
    """Of a run: the configuration that the model was trained under."""


PROMPTINGS: dict[str, tuple[str, ...]] = {
    "zero-shot": (
        "env.prompting=zero-shot",
        "rollout.memory=none",
        "evaluation.conditions=[without_memory]",
    ),
    "react": (
        "env.prompting=react",
        "rollout.memory=none",
        "evaluation.conditions=[without_memory]",
        "evaluation.sampling.max_tokens=160",
    ),
    "reflexion": (
        "env.prompting=react",
        "rollout.memory=reflection",
        "evaluation.conditions=[with_memory]",
        "evaluation.sampling.max_tokens=160",
        "evaluation.sampling.reflect_max_tokens=160",
    ),
}
"""Prompting baselines as settings; the user's own come after them. Reflexion (Shinn et al., 2023) is retries
with reflections, asked as in ReAct."""


def prompted_target(which: str, prompting: str, overrides: Sequence[str]) -> Target:
    """`target_of` under a prompting baseline. Raises ConfigError, also where the prompts of the
    environment can't be asked in this way."""
    from agentmem.app.live.preflight import check_environment

    if prompting not in PROMPTINGS:
        raise ConfigError(f"--prompting is '{prompting}': known are {', '.join(PROMPTINGS)}")
    way, *others = PROMPTINGS[prompting]
    # First alone: what a baseline's lengths say of a format that it isn't for helps nobody.
    check_environment(target_of(which, (way, *overrides)).config)
    target = target_of(which, (way, *others, *overrides))
    return replace(target, name=f"{target.name}-{prompting}")


def target_of(which: str, overrides: Sequence[str]) -> Target:
    """Raises ConfigError: neither a run with a final model nor a recipe."""
    import yaml

    if which in list_recipes() or which.endswith((".yaml", ".yml")):
        config = load_config(which, overrides)
        return Target(config.recipe, config, None)
    try:
        run = RunDir.find(which)
    except ConfigError as error:
        raise ConfigError(f"{error}; nor is it a recipe (agentmem recipes)") from None
    if not any(run.final_model.glob("*.safetensors")):
        raise ConfigError(f"run {run.name} has no final model: go on with agentmem run … --resume {run.name}")
    stored = from_tree(yaml.safe_load(run.config_path.read_text(encoding="utf-8")))
    return Target(run.name, from_tree(override(stored.model_dump(), overrides)), run.final_model, stored)


def other_instances(target: Target) -> str:
    """How the instances differ from those that the model was trained on; empty for the same kind."""
    if target.trained is None:
        return ""
    then, now = target.trained.env, target.config.env
    if then.name != now.name:
        return f"trained on {then.name}, evaluated on {now.name}"
    keys = sorted({*then.options, *now.options})
    changed = [key for key in keys if then.options.get(key) != now.options.get(key)]
    if not changed:
        return ""
    before, after = (
        ", ".join(f"{key}={options.get(key, 'its default')}" for key in changed)
        for options in (then.options, now.options)
    )
    return f"trained on env.options {before}; evaluated on {after}"


def check_trained_on(target: Target, seeds: int) -> None:
    """Refuse an instance that the run was trained on, whatever options the evaluation has.

    Raises ConfigError naming it.
    """
    from agentmem.app.live.held_out import check_apart

    trained, config = target.trained, target.config
    if trained is None or trained.env == config.env:
        return  # then the evaluation's own training split is the run's, which the preflight looks at
    check_apart(trained.env, config.env, config.evaluation, seeds)


def unseen_domains(target: Target) -> frozenset[str]:
    """The domains of a mixture that is evaluated which its model wasn't trained on."""
    from agentmem.app.evaluation.evaluate import left_out
    from envs.registry import parts, weights

    trained, env = target.trained, target.config.env
    if trained is None:
        return left_out(target.config)
    known = set(weights(trained.env.name, trained.env.options))
    return frozenset(
        part.domain
        for part in parts(env.name, env.options, "eval")
        if part.domain and part.domain not in known and part.environment != trained.env.name
    )


def other_agent(target: Target) -> str:
    """How the agent differs from the one that the memory policy was trained with; empty for the same."""
    if target.trained is None or not target.trained.advised:
        return ""
    then, now = (_agent(config) for config in (target.trained, target.config))
    return "" if then == now else f"trained with agent {then}, evaluated with agent {now}"


def _agent(config: RunConfig) -> str:
    agent = config.policies["agent"]
    return f"{agent.model} at {agent.endpoint.url}" if agent.endpoint is not None else agent.model

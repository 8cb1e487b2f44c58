"""The configuration of a run that is resumed: the run's own `config.yaml`, with overrides on top.

So the command that an interrupted run prints goes on as it was, and `--set` changes what shall change. What
the run's boards, weights and trials depend on can't change: a new run has to be started for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentmem.app.reporting.run_buffer import with_password
from agentmem.app.reporting.rundir import RunDir
from agentmem.config import RunConfig
from agentmem.config.load import from_tree, override
from agentmem.failures import ConfigError

FIXED = ("method", "seed", "env.name", "env.options", "rollout.group_size", "policies")


def resumed_config(recipe: str, which: str, overrides: Sequence[str]) -> RunConfig:
    """Raises ConfigError: no such run, another recipe's run, or a change that a run can't survive."""
    import yaml

    run = RunDir.find(which)
    if not run.name.startswith(f"{recipe}-"):
        raise ConfigError(f"--resume {which}: run {run.name} is of another recipe than {recipe}")
    if not run.config_path.is_file():
        raise ConfigError(f"--resume {which}: run {run.name} has no config.yaml")
    stored = from_tree(yaml.safe_load(run.config_path.read_text(encoding="utf-8")))
    config = from_tree(override(stored.model_dump(), overrides))
    with_password(config.replay.url, "replay.url", "give it again by --set replay.url=…")
    for key in FIXED:
        before, after = _at(stored, key), _at(config, key)
        if before != after:
            raise ConfigError(
                f"{key} can't change when a run is resumed ({before!r} -> {after!r}): start a new run"
            )
    return config


def _at(config: RunConfig, key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = getattr(value, part)
    return value

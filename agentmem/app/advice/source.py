"""What `agentmem advise` is given: a run, a model's directory with the recipe that it is for, or a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.app.reporting.records import read_records, updates_of
from agentmem.app.reporting.rundir import RunDir
from agentmem.config import RunConfig, load_config
from agentmem.failures import ConfigError

if TYPE_CHECKING:
    from actors.advisor import Advisor


@dataclass(frozen=True, slots=True)
class Source:
    """A memory policy, and how it is asked."""

    name: str
    config: RunConfig
    model: Path | None
    """None: what the recipe names."""
    version: int = 0
    """Of the weights: the last that the run trained."""


def source_of(which: str, recipe: str | None, overrides: Sequence[str]) -> Source:
    """Raises ConfigError: neither a run, a model nor a recipe; or one without a memory policy."""
    from agentmem.app.evaluation.target import target_of

    path = Path(which).expanduser()
    if (path / "config.json").is_file():
        beside = RunDir(path.absolute().parent)
        if recipe is None and beside.final_model == path.absolute() and beside.config_path.is_file():
            which = str(beside.path)  # a run's final model: the run says how it is asked
        elif recipe is None:
            raise ConfigError(f"{which} is a model: --recipe names the recipe that says how it is asked")
        else:
            return _checked(Source(path.name, load_config(recipe, overrides), path.resolve()))
    elif recipe is not None:
        raise ConfigError(f"--recipe {recipe}: goes with a model's directory, which {which} isn't")
    target = target_of(which, overrides)
    version = _version(target.model.parent) if target.model is not None else 0
    return _checked(Source(target.name, target.config, target.model, version))


def open_advisor(source: Source) -> Advisor:
    """Load it. Raises ModelError, ConfigError, EngineError."""
    from actors.advisor import Advisor
    from actors.generator import GeneratorSettings
    from agentmem.app.live.system import engine_config
    from agentmem.app.models.resolve import check, resolve_for
    from agentmem.trajectory import Split

    config = source.config
    model = source.model
    if model is None:
        model = resolve_for(config, "memory")
    else:
        check(model, config.policies["memory"], config.env.name, config.env.options, advises=True)
    settings = GeneratorSettings.of(config, model=str(model))
    return Advisor(
        engine_config(config, "memory", model),
        settings.env.style(),
        hint=settings.hints[Split.EVAL],
        threshold=settings.threshold,
        timeout_s=settings.timeout_s,
        template_options=settings.template_options,
        version=source.version,
    )


def _checked(source: Source) -> Source:
    if source.config.learning != "memory":
        raise ConfigError(
            f"{source.name}: method '{source.config.method}' trains no memory policy (mempi, mempi-stage1 do)"
        )
    return source


def _version(run: Path) -> int:
    updates = updates_of(read_records(RunDir(run).metrics_path))
    return updates[-1].version if updates else 0

"""What `agentmem compare` is given: runs, directories of `agentmem eval`, or files of trials.

A source may be named: `lamer=runs/lamer-minesweeper-…`. Without a name it is called after its recipe where
that tells it apart, else by its directory. Of a run the evaluation after its last update counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentmem.app.reporting.records import Record, evals_of, read_records, updates_of
from agentmem.app.reporting.rundir import RunDir, runs_base
from agentmem.evaluation.lines import TrialLine, read_lines
from agentmem.failures import ConfigError

_STAMP = re.compile(r"-\d{8}-\d{6}-[0-9a-f]{6}")
_NAMED = re.compile(r"(?P<name>[^=/]+)=(?P<which>.+)")


@dataclass(frozen=True, slots=True)
class Source:
    """Something to compare. `arms`: condition -> its trials, in the order of the file."""

    label: str
    path: Path
    update: int
    """Updates that its weights had seen in the run; 0 for `agentmem eval`."""
    arms: dict[str, list[TrialLine]]
    records: list[Record]
    """Of `metrics.jsonl`; empty for a file of trials alone."""
    env: str | None
    """The environment, if there is a configuration that tells it."""
    settings: dict[str, Any]
    """What of its configuration an evaluation depends on: key -> value."""
    left_out: frozenset[str] = frozenset()
    """Domains of a mixture that weren't trained on."""

    @property
    def trained(self) -> bool:
        """It is a run, with updates."""
        return bool(updates_of(self.records))


def load_sources(which: Sequence[str]) -> list[Source]:
    """Raises ConfigError with one line: no such thing, no trials, two environments, the same thing twice."""
    named = [_NAMED.fullmatch(text) for text in which]
    folders = [_find(match["which"] if match else text) for match, text in zip(named, which, strict=True)]
    recipes = Counter(_recipe(path) for path in folders)
    labels = [
        match["name"] if match else _recipe(path) if recipes[_recipe(path)] == 1 else _folder(path).name
        for match, path in zip(named, folders, strict=True)
    ]
    for label, count in Counter(labels).items():
        if count > 1:
            raise ConfigError(f"{count} of the things to compare are called '{label}': name them NAME=TARGET")
    sources = [_load(label, path) for label, path in zip(labels, folders, strict=True)]
    first = next((s for s in sources if s.env is not None), None)
    for source in sources:
        if first is not None and source.env not in (None, first.env):
            raise ConfigError(
                f"{first.label} plays {first.env} and {source.label} plays {source.env}: only evaluations of "
                "one environment can be compared"
            )
    return sources


def _find(which: str) -> Path:
    """The `trials.jsonl` of a target."""
    path = Path(which)
    if path.is_file():
        return path.absolute()
    if (path / "trials.jsonl").is_file():
        return (path / "trials.jsonl").absolute()
    try:
        run = RunDir.find(which)
    except ConfigError as error:
        try:
            run = RunDir.find(which, runs_base() / "evals")
        except ConfigError:
            raise ConfigError(f"{error}; nor is it an evaluation or a file of trials") from None
    if not run.trials_path.is_file():
        raise ConfigError(
            f"{run.name} has no trials.jsonl: it wasn't evaluated, or by an older version; "
            f"agentmem eval {run.name} evaluates its final model"
        )
    return run.trials_path


def _folder(path: Path) -> Path:
    return path.parent if path.name == "trials.jsonl" else path


def _recipe(path: Path) -> str:
    return _STAMP.sub("", _folder(path).name)


def _load(label: str, path: Path) -> Source:
    lines = read_lines(path)
    update = max(line.update for line in lines)
    arms: dict[str, list[TrialLine]] = {}
    for line in lines:
        if line.update == update:
            arms.setdefault(line.condition, []).append(line)
    run = RunDir(path.parent)
    own = path.name == run.trials_path.name
    env, settings = _settings(run.config_path) if own else (None, {})
    records = read_records(run.metrics_path) if own else []
    unseen = [name for record in evals_of(records) for name, one in record.domains.items() if not one.trained]
    return Source(label, path, update, arms, records, env, settings, frozenset(unseen))


def _settings(config: Path) -> tuple[str | None, dict[str, Any]]:
    """The environment and what an evaluation depends on; nothing is known without a configuration."""
    import yaml

    if not config.is_file():
        return None, {}
    try:
        tree = yaml.safe_load(config.read_text(encoding="utf-8"))
        env, evaluation = tree["env"], tree.get("evaluation", {})
        settings = {f"env.options.{key}": value for key, value in (env.get("options") or {}).items()}
        settings["env.prompting"] = env.get("prompting", "recipe")
        settings["env.max_turns"] = env.get("eval_max_turns") or env.get("max_turns")
        settings["evaluation.episodes"] = evaluation.get("episodes")
        for key, value in (evaluation.get("sampling") or {}).items():
            settings[f"evaluation.sampling.{key}"] = value
        return str(env["name"]), settings
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{config} is no configuration of a run: {error}") from error

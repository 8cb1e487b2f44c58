"""A sweep: arms, each a recipe with overrides, and the seeds that every one of them is run with.

    title: LaMer against single-episode training
    seeds: [0, 1, 2]
    seed_settings: [seed, policies.agent.warmup.seed]
    notes: two shared cores
    arms:
      - {name: lamer, recipe: lamer-minesweeper}
      - {name: gigpo, recipe: gigpo-minesweeper, overrides: [learner.updates=200]}
    differences:
      - {of: lamer, over: gigpo}
      - {of: lamer, over: gigpo without_memory}

An arm is told from others by its name, its recipe, its overrides and the seed: a recorded line with all four
is that run, and is not run again. Two sweeps may share arms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agentmem.app.reporting.learning_log import LearningLine
from agentmem.app.reporting.records import CONDITIONS
from agentmem.config import load_config
from agentmem.failures import AgentMemError, ConfigError

Key = tuple[str, str, tuple[str, ...], int]
"""Arm, recipe, overrides, seed."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Arm(_Strict):
    """What is compared."""

    name: Annotated[str, Field(pattern=r"^[\w.+-]+$")]
    """Without blanks: it stands in tables and in names of files."""
    recipe: str
    overrides: list[str] = []
    """As after `--set`."""
    notes: str = ""
    """Recorded with each of its runs, after the sweep's."""


class Contrast(_Strict):
    """A difference to show; each side is `ARM`, `ARM with_memory` or `ARM without_memory`."""

    of: str
    over: str


class Sweep(_Strict):
    """See the module's docstring."""

    title: str = ""
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    seed_settings: Annotated[list[str], Field(min_length=1)] = ["seed"]
    """The settings that get the seed, after all overrides."""
    overrides: list[str] = []
    """Of every arm, before its own."""
    notes: str = ""
    arms: Annotated[list[Arm], Field(min_length=1)]
    differences: list[Contrast] = []

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [arm.name for arm in self.arms]
        for found, what in ((names, "arms"), ([str(seed) for seed in self.seeds], "seeds")):
            twice = sorted({x for x in found if found.count(x) > 1})
            if twice:
                raise ValueError(f"{what}: {', '.join(twice)} more than once")
        if "seed" not in self.seed_settings:
            raise ValueError(f"seed_settings is {self.seed_settings}: 'seed' must be among them")
        for contrast in self.differences:
            for side in (contrast.of, contrast.over):
                name, condition = arm_and_condition(side)
                if name not in names or condition not in CONDITIONS:
                    raise ValueError(
                        f"differences: '{side}' is no arm ({', '.join(names)}), alone or with one of "
                        f"{', '.join(CONDITIONS)}"
                    )
        return self

    def runs(self) -> list[Planned]:
        """All runs: the first seed of every arm, then the second, and so on."""
        return [self.run(arm, seed) for seed in self.seeds for arm in self.arms]

    def run(self, arm: Arm, seed: int) -> Planned:
        """One run."""
        seeded = [f"{setting}={seed}" for setting in self.seed_settings]
        notes = "; ".join(text for text in (self.notes, arm.notes) if text)
        return Planned(arm.name, arm.recipe, (*self.overrides, *arm.overrides, *seeded), seed, notes)


@dataclass(frozen=True, slots=True)
class Planned:
    """One run of an arm."""

    arm: str
    recipe: str
    overrides: tuple[str, ...]
    seed: int
    notes: str = ""

    @property
    def key(self) -> Key:
        return self.arm, self.recipe, self.overrides, self.seed

    def __str__(self) -> str:
        return f"{self.arm}, seed {self.seed}"


def key_of(line: LearningLine) -> Key:
    """The key of a recorded run."""
    return line.arm, line.recipe, tuple(line.overrides), line.seed


def by_key(lines: Sequence[LearningLine]) -> dict[Key, LearningLine]:
    """The recorded runs; of two with one key the later counts."""
    return {key_of(line): line for line in lines}


def arm_and_condition(side: str) -> tuple[str, str]:
    """`"lamer without_memory"` -> ("lamer", "without_memory"); with memory where nothing is said."""
    name, _, condition = side.partition(" ")
    return name, condition.strip() or "with_memory"


def load_sweep(path: Path) -> Sweep:
    """Read and check a sweep file. Raises ConfigError of one line that names the file and what is wrong."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"sweep {path}: not found") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"sweep {path} can't be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"sweep {path} is no valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(tree, dict):
        raise ConfigError(f"sweep {path}: a mapping with seeds and arms is needed, found {tree!r:.80}")
    try:
        return Sweep.model_validate(tree)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"]))
        text = problem["msg"].removeprefix("Value error, ")
        found = f"{key} is {problem['input']!r:.80}: " if key and problem["type"] != "missing" else ""
        missing = f"{key} is missing: " if problem["type"] == "missing" else ""
        raise ConfigError(f"sweep {path}: {found or missing}{text}") from error


def check_runs(sweep: Sweep, path: Path) -> None:
    """Refuse an arm whose configuration can't run, before the first one does. Raises AgentMemError."""
    from agentmem.app.live.preflight import preflight

    for arm in sweep.arms:
        planned = sweep.run(arm, sweep.seeds[0])
        try:
            config = load_config(planned.recipe, planned.overrides)
            if config.evaluation.tasks == 0:
                raise ConfigError("evaluation.tasks is 0: a sweep compares evaluations")
            if config.seed != planned.seed:
                raise ConfigError(f"seed is {config.seed}, not the sweep's {planned.seed}")
            preflight(config)
        except AgentMemError as error:
            raise type(error)(f"sweep {path}, arm '{arm.name}': {error}") from error

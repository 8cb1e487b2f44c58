"""What `agentmem arms` was given, looked at before anything starts: bank, models, agent, held-out tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.app.evaluation.arms.plan import (
    FILE,
    WRITTEN,
    Manifest,
    asks_of,
    chosen_arms,
    mark_file,
    mark_model,
    model_dir,
    plays_of,
    read_manifest,
    scripted,
    settle,
)
from agentmem.config import RunConfig
from agentmem.failures import ConfigError
from agentmem.memory.bank.records import BankRecord, read_bank

if TYPE_CHECKING:
    from agentmem.app.evaluation.target import Target


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command was given, checked."""

    target: Target
    config: RunConfig
    out: Path
    arms: tuple[str, ...]
    """To be played; the oracle is computed."""
    bank: Path
    records: list[BankRecord]
    models: dict[str, Path]
    """Of `stage1` and `full`."""
    seed: int
    fit_tasks: int
    known: tuple[Path, ...]


def checked(
    which: str,
    *,
    bank: Path,
    out: Path,
    arms: str | None,
    stage1: str | None,
    full: str | None,
    seed: int,
    tasks: int | None,
    fit_tasks: int,
    known: Sequence[Path],
    overrides: Sequence[str],
) -> Asked:
    """All that can be seen to be wrong before anything starts. Raises ConfigError, ModelError."""
    from agentmem.app.evaluation.target import target_of
    from agentmem.app.live.preflight import evaluation_tasks, preflight
    from agentmem.memory.bank.splitting import refuse_test_tasks
    from envs.registry import has_screenshot

    wanted = chosen_arms(arms)
    for option, found, least in (("--tasks", tasks, 1), ("--fit-tasks", fit_tasks, 1), ("--seed", seed, 0)):
        if found is not None and found < least:
            raise ConfigError(f"{option} is {found}: at least {least}")
    more = [f"seed={seed}"] if tasks is None else [f"seed={seed}", f"evaluation.tasks={tasks}"]
    target = target_of(which, [*overrides, *more])
    config = target.config
    if not config.advised:
        raise ConfigError(
            f"{which}: method is '{config.method}', and arms are hints for a frozen agent: a recipe or run "
            "of method 'mempi' is needed"
        )
    if config.evaluation.tasks < 1:
        raise ConfigError(f"evaluation.tasks is {config.evaluation.tasks}: at least 1")
    if config.advice.every != "trial":
        raise ConfigError(f"advice.every is '{config.advice.every}': arms give one hint a trial ('trial')")
    if has_screenshot(config.env.name, config.env.options):
        raise ConfigError(
            "env.options.screenshot is true: arms ask with text alone (agentmem eval asks with pictures)"
        )
    preflight(config)
    records = read_bank(bank)
    refuse_test_tasks(records, evaluation_tasks(config), f"--bank {bank}")
    given = {
        "stage1": stage1,
        "full": full if full is not None or target.model is None else str(target.model),
    }
    models = {}
    for name, model in given.items():
        needing = [arm for arm in wanted if WRITTEN.get(arm) == name]
        if needing:
            models[name] = model_dir(f"--{name}", model, needing, config)
            _check_its_training(config, models[name])
    for folder in known:
        _check_known(folder, config)
    return Asked(target, config, out, wanted, bank, records, models, seed, fit_tasks, tuple(known))


def _check_its_training(config: RunConfig, model: Path) -> None:
    """Refuse a model of a run that was trained on one of the held-out tasks, under whatever options."""
    import yaml

    from agentmem.app.evaluation.target import Target, check_trained_on
    from agentmem.config.load import from_tree

    stored = model.parent / "config.yaml"
    if model.name == "final_model" and stored.is_file():
        trained = from_tree(yaml.safe_load(stored.read_text(encoding="utf-8")))
        check_trained_on(Target(model.parent.name, config, model, trained), 1)


def _check_known(folder: Path, config: RunConfig) -> None:
    if not scripted(config):
        raise ConfigError(
            f"--known {folder}: policies.agent.model is '{config.policies['agent'].model}', whose trials "
            "differ from time to time; only a scripted agent's can be taken over"
        )
    before, now = read_manifest(folder / FILE).plays, plays_of(config)
    for key in {**before, **now}:
        if before.get(key) != now.get(key):
            raise ConfigError(
                f"--known {folder}: its trials were played with {key} {before.get(key)!r}, "
                f"not {now.get(key)!r}"
            )


def settled(asked: Asked, untrained: Path | None = None) -> None:
    """Write `arms.json`, or refuse what doesn't go on with the one that is there."""
    models = asked.models if untrained is None else {**asked.models, "untrained": untrained}
    settle(
        asked.out,
        Manifest(
            target=asked.target.name,
            seed=asked.seed,
            fit_tasks=asked.fit_tasks,
            plays=plays_of(asked.config),
            asks=asks_of(asked.config),
            bank=mark_file(asked.bank),
            models={name: mark_model(path) for name, path in models.items()},
        ),
    )

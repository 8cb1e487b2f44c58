"""`agentmem run`: from a configuration to a trained model and a report.

Order: run directory → model → system → evaluation → updates → evaluation → final model → report. Whatever
ends it early (Ctrl-C, a failure) ends the system first, bounded, then says how to go on.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentmem.app.live.interrupt import INTERRUPTED_EXIT, Interrupted
from agentmem.app.live.preflight import preflight
from agentmem.app.reporting.rundir import RunDir
from agentmem.app.sinks.publisher import Publisher
from agentmem.config import RunConfig, to_yaml
from agentmem.config.load import without_secrets
from agentmem.failures import ConfigError


@dataclass(frozen=True, slots=True)
class Recording:
    """Where a finished run's line goes (None: the default file), and what it says besides figures."""

    path: Path | None = None
    arm: str = ""
    notes: str = ""


def train(
    config: RunConfig,
    *,
    overrides: Sequence[str] = (),
    resume: str | None = None,
    record: Recording | None = None,
) -> None:
    """Run a recipe to its end. Raises AgentMemError; SystemExit(130) after a Ctrl-C."""
    from rich.console import Console

    from agentmem.app.reporting.report import write_report
    from agentmem.app.reporting.show import write_text

    stage1 = config.method == "mempi-stage1"
    if record is not None and (stage1 or config.evaluation.tasks == 0):
        why = "method 'mempi-stage1' has none" if stage1 else "evaluation.tasks is 0"
        raise ConfigError(f"--record needs a final evaluation: {why}")
    preflight(config)
    if stage1 or (config.advised and config.advice.distil_coef > 0):
        from agentmem.app.training.stage1 import bank_of

        bank_of(config)  # a bank that can't be used leaves no run behind
    run = _open_run(config, resume)
    console = Console()

    def told(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    try:
        with Publisher(run, config.telemetry.sinks, without_secrets(config), told):
            if stage1:
                _distil(config, run, console)
                return
            _run(config, run, list(overrides), resume is not None, record, console)
    except (Interrupted, KeyboardInterrupt):
        console.print(f"Interrupted. {_put_away(config, run)}", markup=False, highlight=False, soft_wrap=True)
        raise SystemExit(INTERRUPTED_EXIT) from None
    except Exception:
        console.print(_put_away(config, run), markup=False, highlight=False, soft_wrap=True)
        raise
    write_text(run)
    write_report(run, console)


def _open_run(config: RunConfig, resume: str | None) -> RunDir:
    if resume is None:
        run = RunDir.create(config.recipe)
        run.config_path.write_text(to_yaml(config), encoding="utf-8")
        return run
    run = RunDir.find(resume)
    for line in differences(run.config_path, config):
        print(f"configuration differs from the run's: {line}")
    run.config_path.write_text(to_yaml(config), encoding="utf-8")
    return run


def differences(path: Path, config: RunConfig) -> list[str]:
    """What the configuration changes against a stored one: `key: old -> new`. The new one counts."""
    import yaml

    def flat(tree: Any, prefix: str = "") -> dict[str, Any]:
        if not isinstance(tree, dict):
            return {prefix: tree}
        return {k: v for key, sub in tree.items() for k, v in flat(sub, f"{prefix}.{key}".strip(".")).items()}

    before = flat(yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {})
    after = flat(yaml.safe_load(to_yaml(config)))
    return [
        f"{key}: {before.get(key)!r} -> {after.get(key)!r}"
        for key in sorted({*before, *after} - {""})
        if before.get(key) != after.get(key)
    ]


def _put_away(config: RunConfig, run: RunDir) -> str:
    """How to go on with a run that ended early. One that measured nothing yet leaves nothing behind."""
    measured = run.metrics_path.is_file() and run.metrics_path.stat().st_size > 0
    if measured or any(run.checkpoints.iterdir()):
        return f"Go on with: agentmem run {config.recipe} --resume {run.name}"
    shutil.rmtree(run.path)
    return "It had not begun; nothing was kept."


def _distil(config: RunConfig, run: RunDir, console: Any) -> None:
    from agentmem.app.training.stage1 import run_stage1, stage1_text

    run_stage1(config, run, console)
    console.print(stage1_text(run), markup=False, highlight=False, soft_wrap=True)
    console.print(f"run {run.path}\n  final model  {run.final_model.name}", markup=False, soft_wrap=True)


def _run(
    config: RunConfig,
    run: RunDir,
    overrides: list[str],
    resuming: bool,
    record: Recording | None,
    console: Any,
) -> None:
    from agentmem.app.live.session import session
    from agentmem.app.live.system import resume_point

    checkpoint, stored = resume_point(run) if resuming else (None, {})
    updates, done = config.learner.updates, int(stored.get("update", 0))
    with session(config, run, console, updates=updates, done=done) as live:
        from agentmem.app.training.trainer import Trainer

        trainer = Trainer(
            config,
            run,
            live.models,
            live.view,
            live.metrics,
            live.flag,
            checkpoint=checkpoint,
            resumed=stored if resuming else None,
        )
        began, cpu = time.monotonic(), time.process_time()
        asyncio.run(trainer.run())
        log = logging.getLogger(__name__)
        log.info("driver: %.1f s wall, %.1f s CPU", time.monotonic() - began, time.process_time() - cpu)
        if record is not None:
            from agentmem.app.reporting.learning_log import append_line, learning_line
            from agentmem.app.reporting.records import read_records

            line = learning_line(
                config,
                read_records(run.metrics_path),
                overrides=overrides,
                arm=record.arm,
                cpu_s=trainer.cpu_s(),
                notes=record.notes,
            )
            live.view.note(f"recorded in {append_line(line, record.path)}")

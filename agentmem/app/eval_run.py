"""`agentmem eval TARGET`: a model with frozen weights on held-out instances.

TARGET is a run (its final model, under its own configuration) or a recipe (the policy's model as it is). Each
condition plays `evaluation.tasks` instances for each seed, which chooses them. What is written, under
`evals/` beside the runs: `trials.jsonl`, one line a trial; `metrics.jsonl`, one line a condition and seed;
`config.yaml`. An instance that is trained on, too, is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agentmem.app.evaluate import evaluate
from agentmem.app.interrupt import Interrupted
from agentmem.app.records import Condition, EvalRecord, MetricsWriter
from agentmem.app.rundir import RunDir, runs_base
from agentmem.config import RunConfig, list_recipes, load_config, to_yaml
from agentmem.config.load import from_tree, override
from agentmem.failures import ConfigError
from agentmem.trajectory import Trial

if TYPE_CHECKING:
    from rich.console import Console

    from agentmem.app.session import Session


class TrialLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `trials.jsonl`."""

    condition: Condition
    seed: int
    instance: str | int
    solved: list[bool]
    """Of each episode that was played; a success ends the trial."""
    score: float | None
    turns: int
    tokens: dict[str, int]
    """Sampled, by turn kind."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is evaluated."""

    name: str
    config: RunConfig
    model: Path | None
    """None: the policy's own."""


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
    return Target(run.name, from_tree(override(stored.model_dump(), overrides)), run.final_model)


def evaluate_target(
    which: str, *, seeds: int = 1, overrides: Sequence[str] = (), console: Console | None = None
) -> Path:
    """Evaluate and print the table; the directory with the results. SystemExit(130) after a Ctrl-C."""
    from rich.console import Console

    from agentmem.app.session import session
    from agentmem.app.train import INTERRUPTED_EXIT, preflight

    target = target_of(which, overrides)
    config = target.config
    if config.evaluation.tasks == 0 or seeds < 1:
        found = "evaluation.tasks is 0" if seeds >= 1 else f"--seeds is {seeds}"
        raise ConfigError(f"{found}: there is nothing to evaluate; at least 1")
    preflight(config, seeds)
    run = RunDir.create(target.name, runs_base() / "evals")
    run.config_path.write_text(to_yaml(config), encoding="utf-8")
    console = console or Console()
    try:
        with session(config, run, console, updates=0, model=target.model, learns=False) as live:
            records = asyncio.run(_play(config, run, live, range(seeds)))
    except (Interrupted, KeyboardInterrupt):
        console.print(f"Interrupted; what was measured is in {run.path}", highlight=False, soft_wrap=True)
        raise SystemExit(INTERRUPTED_EXIT) from None
    console.print(table(records), markup=False, highlight=False, soft_wrap=True)
    console.print(f"{run.path}", markup=False, highlight=False, soft_wrap=True)
    return run.path


async def _play(
    config: RunConfig, run: RunDir, live: Session, seeds: Sequence[int]
) -> list[tuple[int, EvalRecord]]:
    from agentmem.app.monitor import Monitor
    from agentmem.app.system import System
    from agentmem.app.watch import Watch
    from envs.registry import instances

    held_out = instances(config.env.name, config.env.options, "eval")
    system = System(config, run, live.model, learns=False)
    monitor = Monitor(system, live.metrics, live.view)
    watch = Watch(
        config, system, monitor, live.flag, lambda what, detail: live.view.note(f"{what}: {detail}")
    )
    records: list[tuple[int, EvalRecord]] = []
    try:
        await watch.guard(system.start(live.view.phase))
        with MetricsWriter(run.metrics_path) as writer, (run.path / "trials.jsonl").open("ab") as lines:
            for seed in seeds:
                evaluation = config.evaluation.model_copy(update={"seed": config.evaluation.seed + seed})
                of_seed = config.model_copy(update={"evaluation": evaluation})
                for condition in config.evaluation.conditions:
                    text = f"seed {seed}, {condition.replace('_', ' ')}"

                    async def tick(trials: int, total: int, text: str = text) -> None:
                        live.view.phase(text, trials, total)
                        await watch.look()

                    record, trials = await evaluate(of_seed, system.buffer, held_out, condition, 0, tick)
                    writer.append(record)
                    records.append((seed, record))
                    for trial in trials:
                        line = _line(trial, condition, of_seed.evaluation.seed)
                        lines.write(msgspec.json.encode(line) + b"\n")
                    lines.flush()
    finally:
        live.view.phase("closing")
        await watch.close()
        await system.close(config.supervision.drain_timeout_s)
    return records


def _line(trial: Trial, condition: Condition, seed: int) -> TrialLine:
    return TrialLine(
        condition=condition,
        seed=seed,
        instance=trial.task.instance,
        solved=[episode.success for episode in trial.episodes],
        score=trial.score,
        turns=sum(len(episode.turns) for episode in trial.episodes),
        tokens=trial.token_counts(),
    )


def table(records: Sequence[tuple[int, EvalRecord]]) -> str:
    """A row for each condition and seed, and where there are several seeds one for all of their trials."""
    from agentmem.app.table import INTERVALS, aligned, cell

    ks = max(len(record.p_at_k) for _, record in records)
    header = ["memory", "seed", "n", *(f"p@{k + 1}" for k in range(ks)), "score"]
    body = []
    for condition in dict.fromkeys(record.condition for _, record in records):
        own = [(str(seed), record) for seed, record in records if record.condition == condition]
        if len(own) > 1:
            own.append(("all", pooled([record for _, record in own])))
        for seed, record in own:
            score = "-" if record.score is None else f"{record.score:.3f}"
            memory = "with" if condition == "with_memory" else "without"
            body.append([memory, seed, str(record.n), *(cell(record, k) for k in range(ks)), score])
    return "\n".join([*aligned(header, body), f"[ ]: {INTERVALS}"])


def pooled(records: Sequence[EvalRecord]) -> EvalRecord:
    """The trials of several evaluations of one condition together."""
    from agentmem.evaluation.pass_at_k import wilson

    n = sum(record.n for record in records)
    solved = [
        sum(round(record.p_at_k[k] * record.n) for record in records) for k in range(len(records[0].p_at_k))
    ]
    shares = [wilson(count, n) for count in solved]
    scored = [record for record in records if record.score is not None]
    counted = sum(record.n for record in scored)
    return EvalRecord(
        update=0,
        condition=records[0].condition,
        n=n,
        p_at_k=[share.value for share in shares],
        low=[share.low for share in shares],
        high=[share.high for share in shares],
        score=sum((r.score or 0.0) * r.n for r in scored) / counted if counted else None,
        wall_s=sum(record.wall_s for record in records),
    )

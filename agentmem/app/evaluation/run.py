"""`agentmem eval TARGET`: a model with frozen weights on held-out instances.

TARGET is a run (its final model, under its own configuration) or a recipe (the policy's model as it is). Each
condition plays `evaluation.tasks` instances for each seed, which chooses them. What is written, under
`evals/` beside the runs: `trials.jsonl`, one line a trial; `metrics.jsonl`, one line a condition and seed;
`config.yaml`; `examples.msgpack`, some trials for `agentmem show DIRECTORY`. An instance that is trained on,
too, is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.app.evaluation.evaluate import Evaluated, advice_record, evaluate, gap_record
from agentmem.app.evaluation.html.page import check_writable, write_page
from agentmem.app.evaluation.masking import check_masks, mask_record, play_masked
from agentmem.app.evaluation.table import behaviour_table, mask_table, memory_name, success_table
from agentmem.app.evaluation.target import (
    Target,
    check_trained_on,
    other_agent,
    other_instances,
    prompted_target,
    target_of,
    unseen_domains,
)
from agentmem.app.live.interrupt import Interrupted
from agentmem.app.reporting.domain_table import domain_table
from agentmem.app.reporting.records import (
    OTHER_AGENT,
    OTHER_INSTANCES,
    EventRecord,
    MaskRecord,
    MetricsWriter,
    read_records,
)
from agentmem.app.reporting.rundir import RunDir, runs_base
from agentmem.config import to_yaml
from agentmem.evaluation.domains import figures_by_domain
from agentmem.evaluation.lines import TrialLine, TrialWriter
from agentmem.failures import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from agentmem.app.live.session import Session


def evaluate_target(
    which: str,
    *,
    seeds: int = 1,
    trials_per_task: int = 1,
    prompting: str | None = None,
    masks: Sequence[str] = (),
    overrides: Sequence[str] = (),
    html: Path | None = None,
    console: Console | None = None,
) -> Path:
    """Evaluate and print the table; the directory with the results. SystemExit(130) after a Ctrl-C."""
    from rich.console import Console

    from agentmem.app.live.interrupt import INTERRUPTED_EXIT
    from agentmem.app.live.preflight import preflight
    from agentmem.app.live.session import session

    if prompting is None:
        target = target_of(which, overrides)
    else:
        target = prompted_target(which, prompting, overrides)
    config = target.config
    if config.evaluation.tasks == 0 or seeds < 1:
        found = "evaluation.tasks is 0" if seeds >= 1 else f"--seeds is {seeds}"
        raise ConfigError(f"{found}: there is nothing to evaluate; at least 1")
    if trials_per_task < 1:
        raise ConfigError(f"--trials-per-task is {trials_per_task}: at least 1")
    check_masks(config, masks)
    if html is not None:
        check_writable(html)
    preflight(config, seeds)
    check_trained_on(target, seeds)
    run = RunDir.create(target.name, runs_base() / "evals")
    run.config_path.write_text(to_yaml(config), encoding="utf-8")
    console = console or Console()
    try:
        with session(config, run, console, updates=0, model=target.model, learns=False) as live:
            results = asyncio.run(_play(target, run, live, range(seeds), trials_per_task, masks))
    except (Interrupted, KeyboardInterrupt):
        console.print(f"Interrupted; what was measured is in {run.path}", highlight=False, soft_wrap=True)
        raise SystemExit(INTERRUPTED_EXIT) from None
    others = {OTHER_INSTANCES: other_instances(target), OTHER_AGENT: other_agent(target)}
    others = {what: detail for what, detail in others.items() if detail}
    with MetricsWriter(run.metrics_path) as writer:
        for what, detail in others.items():
            writer.append(EventRecord(t=0.0, what=what, detail=detail))
    texts = [success_table(results)]
    texts += [f"\n{text}" for text in (by_domain(target, results),) if text]
    texts += ["", behaviour_table([e.lines for _, e in results])]
    if masks:
        texts += ["", mask_table([r for r in read_records(run.metrics_path) if isinstance(r, MaskRecord)])]
    for text in [*texts, *others.values()]:
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print(f"{run.path}", markup=False, highlight=False, soft_wrap=True)
    if html is not None:
        from agentmem.app.evaluation.comparison import compare
        from agentmem.app.evaluation.sources import load_sources

        sources = load_sources([str(run.path)])
        write_page(html, compare(sources, alone=True), sources)
        console.print(f"report: {html}", markup=False, highlight=False, soft_wrap=True)
    return run.path


def by_domain(target: Target, results: Sequence[tuple[int, Evaluated]]) -> str:
    """Of a mixture: the trials of all seeds by domain; those that the run left out of training are marked."""
    arms: dict[str, list[TrialLine]] = {}
    for _, evaluated in results:
        arms.setdefault(evaluated.record.condition, []).extend(evaluated.lines)
    unseen, episodes = unseen_domains(target), target.config.evaluation.episodes
    rows = [
        ((memory_name(condition),), figures_by_domain(lines, episodes, unseen))
        for condition, lines in arms.items()
    ]
    return domain_table(rows, ("memory",))


async def _play(
    target: Target,
    run: RunDir,
    live: Session,
    seeds: Sequence[int],
    trials_per_task: int,
    masks: Sequence[str],
) -> list[tuple[int, Evaluated]]:
    from agentmem.app.live.monitor import Monitor
    from agentmem.app.live.system import System
    from agentmem.app.live.watch import Watch
    from agentmem.app.reporting.examples import ExampleStore, decoder
    from envs.registry import instances

    config = target.config
    held_out = instances(config.env.name, config.env.options, "eval")
    system = System(config, run, live.models, learns=False)
    monitor = Monitor(system, live.metrics, live.view)
    watch = Watch(
        config, system, monitor, live.flag, lambda what, detail: live.view.note(f"{what}: {detail}")
    )
    found: list[tuple[int, Evaluated]] = []
    try:
        await watch.guard(system.start(live.view.phase))
        with (
            MetricsWriter(run.metrics_path) as writer,
            TrialWriter(run.trials_path) as lines,
            ExampleStore(run.examples, decode=decoder(live.models)) as examples,
        ):
            hidden: dict[str, list[TrialLine]] = {mask: [] for mask in masks}
            for seed in seeds:
                evaluation = config.evaluation.model_copy(update={"seed": config.evaluation.seed + seed})
                of_seed = config.model_copy(update={"evaluation": evaluation})
                for condition in config.evaluation.conditions:
                    text = f"seed {seed}, {condition.replace('_', ' ')}"

                    async def tick(trials: int, total: int, text: str = text) -> None:
                        live.view.phase(text, trials, total)
                        await watch.look()

                    one = await evaluate(
                        of_seed,
                        system.buffer,
                        held_out,
                        condition,
                        0,
                        tick,
                        trials_per_task=trials_per_task,
                        unseen=unseen_domains(target),
                    )
                    writer.append(one.record)
                    lines.append(one.lines)
                    for trial in one.trials:
                        examples.offer(trial, 0)
                    for mask in masks if condition == "with_memory" else ():
                        again = partial(tick, text=f"seed {seed}, {mask} hidden")
                        hidden[mask] += await play_masked(of_seed, system.buffer, one.trials, mask, again)
                    found.append((seed, one))
            played = [line for _, e in found for line in e.lines]
            gap = gap_record(played, 0, evaluation.episodes)
            if gap is not None:
                writer.append(gap)
                monitor.memory_gap(gap)
            advised = advice_record(played, 0)
            if advised is not None:
                writer.append(advised)
                monitor.advised(advised)
            if masks:
                with TrialWriter(run.masked_path) as masked:
                    for mask, again_played in hidden.items():
                        masked.append(again_played)
                        writer.append(mask_record(mask, played, again_played))
    finally:
        live.view.phase("closing")
        await watch.close()
        await system.close(config.supervision.drain_timeout_s)
    return found

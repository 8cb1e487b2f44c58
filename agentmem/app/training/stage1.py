"""`agentmem run` of method `mempi-stage1`: a memory policy learns an experience bank's hints (Mem-π).

Order: bank → model → learner group → epochs, each measured on the held-out tasks → final model. Neither
engines nor a replay buffer are needed. Interrupted at any moment and resumed, it goes on from the newest
checkpoint and ends with the weights that it would have ended with.

The bank is guarded: a record of the evaluation's split, or of one of the evaluation's instances in the run's
environment, refuses it. Held-out records are of tasks that no trained record is of.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.app.live.exports import export_distil
from agentmem.app.live.interrupt import InterruptFlag
from agentmem.app.live.preflight import evaluation_tasks
from agentmem.app.live.session import own_endpoint, through_ray
from agentmem.app.reporting.records import (
    DistilRecord,
    MetricsWriter,
    distils_of,
    read_records,
    truncate_after,
)
from agentmem.app.reporting.rundir import RunDir
from agentmem.app.reporting.view import LiveView
from agentmem.app.training.bank_domains import domains_of
from agentmem.config import RunConfig
from agentmem.failures import ConfigError
from agentmem.memory.bank.pictures import bank_pictures
from agentmem.memory.bank.records import BankRecord, read_bank
from agentmem.memory.bank.splitting import refuse_test_tasks, split
from agentmem.telemetry import Metrics

if TYPE_CHECKING:
    from rich.console import Console

    from agentmem.vision.picture import Picture
    from learner.distil import DistilStep
    from learner.row import Row

log = logging.getLogger(__name__)


def bank_of(config: RunConfig) -> tuple[list[BankRecord], list[BankRecord]]:
    """The bank's records to learn and those to measure. Raises ConfigError for a bank that can't be used."""
    stage1 = config.advice.stage1
    if stage1.bank is None:
        what = "Stage 1" if config.method == "mempi-stage1" else "advice.distil_coef above 0"
        raise ConfigError(f"advice.stage1.bank is missing: {what} learns from the file that is named there")
    records = read_bank(Path(stage1.bank))
    if not records:
        raise ConfigError(f"advice.stage1.bank is '{stage1.bank}': it has no records")
    refuse_test_tasks(records, evaluation_tasks(config), stage1.bank)
    domains_of(config, records, stage1.bank)
    return split(records, stage1.held_out, config.seed) if stage1.held_out > 0 else (records, [])


def run_stage1(config: RunConfig, run: RunDir, console: Console) -> None:
    """From the bank to the final model. Raises AgentMemError, Interrupted."""
    from agentmem.app.live.joining import learner_request, start_ray
    from agentmem.app.live.system import rank_settings
    from agentmem.app.models.resolve import resolve_for
    from learner.checkpoint import newest
    from learner.distil import distil
    from learner.group import LearnerGroup
    from learner.stage1 import settings_of, steps_of

    logging.basicConfig(
        filename=run.logs / "driver.log", level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    learnt, measured = bank_of(config)
    pictures = bank_pictures(Path(config.advice.stage1.bank or ""))
    found = newest(run.checkpoints)
    done = 0 if found is None else found.step
    truncate_after(run.metrics_path, done)
    with ExitStack() as stack:
        steps = steps_of(len(learnt), config.advice.stage1)
        view = stack.enter_context(LiveView(run.name, steps, done, console=console))
        flag = stack.enter_context(InterruptFlag())
        writer = stack.enter_context(MetricsWriter(run.metrics_path))

        def on_progress(text: str, done: int, total: int) -> None:
            flag.check()
            view.phase(text, done, total)

        backend = own_endpoint(config, view, stack)
        view.note(f"run: {run.path}")
        model = resolve_for(config, "memory", on_progress=on_progress)
        rows, held_out = (encoded(config, model, part, pictures) for part in (learnt, measured))
        view.note(f"{len(rows)} records to learn, {len(held_out)} of other tasks to measure")
        view.phase("starting Ray")
        import ray

        stack.callback(ray.shutdown)
        wait_s = config.scaling.machine_wait_s
        start_ray([learner_request(config)], machine_wait_s=wait_s, say=view.phase, pause=flag.wait)
        flag.install()  # ray.init() puts its own handlers in place
        metrics = Metrics(run.name, through_ray(config, stack) or backend)
        metrics.gauge("agentmem_planned_updates_count", steps)
        metrics.gauge("agentmem_done_updates_count", done)
        view.phase("starting the learner")
        settings = settings_of(rank_settings(config, model, run.weights_dir), len(rows))
        learner = stack.enter_context(LearnerGroup(settings))

        def on_step(step: DistilStep) -> None:
            record = record_of(step)
            writer.append(record)  # before the flag: its checkpoint may be written already
            export_distil(metrics, record)
            flag.check()
            told = "" if step.loss is None else f", loss {step.loss:.3f}"
            epoch = min(step.epoch + 1, config.advice.stage1.epochs)
            view.phase(f"epoch {epoch}{told}", step.step, step.steps)
            if step.held_out is not None:
                view.note(f"after epoch {step.epoch}: held-out loss {step.held_out:.3f}")

        finished = distil(learner, rows, held_out, checkpoints=run.checkpoints, on_step=on_step)
        if finished.before is not None:
            writer.append(DistilRecord(update=0, epoch=0, held_out=finished.before))
        view.phase("writing the final model")
        learner.final_model(str(run.final_model))


def encoded(
    config: RunConfig,
    model: Path,
    records: Sequence[BankRecord],
    pictures: Mapping[str, Picture],
) -> list[Row]:
    """The learner's rows: each record's situation as the memory policy will be asked about it. `pictures`: by
    the records' ids."""
    from agentmem.chat import ChatCodec, DecisionTokens
    from agentmem.vision.reader import PictureReader
    from envs.registry import style
    from learner.stage1 import encode

    policy, asks = config.policies["memory"], style(config.env.name, config.env.options)
    codec = ChatCodec(str(model), template_options=policy.template_options)
    domains = domains_of(config, records, str(config.advice.stage1.bank))
    pairs = [
        (asks.of(domain).advise_prompt(record.q, record.o), record.m)
        for domain, record in zip(domains, records, strict=True)
    ]
    examples = encode(
        pairs,
        codec,
        DecisionTokens.of(model),
        config.advice.stage1,
        pictures=[pictures.get(record.id) for record in records],
        reader=PictureReader.of(model),
    )
    if examples.prompts_cut or examples.hints_cut:
        log.info("%d prompts and %d hints were cut", examples.prompts_cut, examples.hints_cut)
    return examples.rows


def record_of(step: DistilStep) -> DistilRecord:
    """A step as a line of `metrics.jsonl`."""
    return DistilRecord(
        update=step.step,
        epoch=step.epoch,
        loss=step.loss,
        held_out=step.held_out,
        lr=step.lr,
        tokens=step.tokens,
    )


def stage1_text(run: RunDir) -> str:
    """The held-out loss by epoch, in words; what was learnt, if nothing was held out."""
    records = distils_of(read_records(run.metrics_path))
    measured = [record for record in records if record.held_out is not None]
    if measured:
        return "\n".join(
            [
                "epoch  held-out loss (nats per hint token)",
                *(f"{record.epoch:5d}  {record.held_out:.4f}" for record in measured),
            ]
        )
    losses = [record.loss for record in records if record.loss is not None]
    if not losses:
        return "nothing was learnt"
    return f"{len(losses)} steps, loss {losses[0]:.4f} -> {losses[-1]:.4f}"

"""`agentmem bank play|build|inspect|split|check`: Mem-π's experience bank, a file of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from agentmem.config.bank import BankConfig
    from agentmem.memory.bank.builder import Tally
    from agentmem.memory.bank.files import BankFiles
    from agentmem.memory.bank.grouping import Job
    from agentmem.memory.bank.records import BankRecord
    from agentmem.memory.bank.splitting import Task

app = typer.Typer(help="Mem-π's experience bank: play, build, inspect, split, check.", no_args_is_help=True)

Bank = Annotated[Path, typer.Argument(help="A bank, as `bank build` writes it.", metavar="BANK")]
LISTED = 20
"""Faults, or records of test tasks, that `check` prints."""
ENGINE_AT_ONCE = 8
"""Sequences at once of a writer here, if nothing else is set: its prompts are long."""


@app.command()
def play(
    target: Annotated[str, typer.Argument(help="Who plays: a run (its final model), or a recipe.")],
    out: Annotated[Path, typer.Option("--out", help="Where the trials go, one a line.")],
    tasks: Annotated[int, typer.Option(help="How many training instances.")] = 64,
    trials: Annotated[int, typer.Option(help="Trials of each.")] = 4,
    seed: Annotated[int, typer.Option(help="Chooses the instances.")] = 0,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override a setting of the run or recipe (repeatable).")
    ] = None,
) -> None:
    """Play training instances with frozen weights, and keep the whole trials for `build`."""
    from agentmem.app.bank.playing import play_target

    done = play_target(target, out, tasks=tasks, trials_per_task=trials, seed=seed, overrides=overrides or ())
    typer.echo(f"{out}: {done} trials")


@app.command()
def build(
    sources: Annotated[
        list[str],
        typer.Option(
            "--from",
            help="A run (id, path, `last`), or a file of whole trials: *.jsonl as `buffer export` writes it, "
            "*.msgpack as a run's examples (repeatable).",
            metavar="RUN|FILE",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The bank; one that exists is gone on with.")],
    model: Annotated[str, typer.Option("--model", help="The writer: `smollm2`, a name, a directory.")],
    url: Annotated[
        str | None,
        typer.Option("--url", help="Its OpenAI-compatible endpoint, as https://host/v1; else it runs here."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting: --set kind=pair --set endpoint.concurrency=4 (repeatable)."),
    ] = None,
) -> None:
    """Write hints from what was played."""
    import asyncio

    from agentmem.app.bank.sources import collect
    from agentmem.app.live.interrupt import INTERRUPTED_EXIT
    from agentmem.failures import ConfigError, InfrastructureError
    from agentmem.memory.bank.files import open_bank
    from agentmem.memory.bank.grouping import by_task, plan

    config = _config(model, url, overrides or [])
    traces = collect(sources, config.env_options, typer.echo)
    jobs = plan(by_task(traces), config.kind, config.per_task, config.traces)
    if not jobs:
        raise ConfigError(
            f"kind is '{config.kind}', but no task has the traces for it ('auto' takes what there is)"
        )
    with open_bank(out) as files:
        before = len(files.records)
        if files.torn:
            typer.echo(f"{out}: a torn last line is dropped: the build that wrote it was interrupted")
        try:
            tally = asyncio.run(_build(config, files, jobs))
        except (KeyboardInterrupt, InfrastructureError) as error:
            so_far = f"{out}: {len(files.records)} records so far"
            typer.echo(f"{so_far}; the same command goes on, and asks nothing twice")
            if isinstance(error, KeyboardInterrupt):
                raise typer.Exit(INTERRUPTED_EXIT) from None
            raise
        typer.echo(f"{out}: {len(files.records)} records, {len(files.records) - before} of them new")
        typer.echo(_told(tally))


async def _build(config: BankConfig, files: BankFiles, jobs: Sequence[Job]) -> Tally:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from agentmem.app.bank.writer import open_writer
    from agentmem.memory.bank.builder import Asking, Builder

    asking = Asking(config.hint_tokens, config.zoom_tokens, config.temperature, config.zoom)
    columns = (TextColumn("hints"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    async with open_writer(config, typer.echo) as writer:
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("hints", total=len(jobs))
            builder = Builder(files, writer, asking, lambda t: bar.update(task, completed=t.done))
            return await builder.build(jobs)


@app.command()
def inspect(bank: Bank, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Its size, by domain, split, kind and writer; lengths; tokens spent."""
    from agentmem.memory.bank.records import read_bank
    from agentmem.memory.bank.statistics import statistics

    seen = statistics(read_bank(bank))
    typer.echo(json.dumps(seen, indent=1) if as_json else _readable(seen))


@app.command()
def split(
    bank: Bank,
    train: Annotated[Path, typer.Option("--train", help="Where the training part goes.")],
    held_out: Annotated[Path, typer.Option("--held-out", help="Where the held-out part goes.")],
    share: Annotated[float, typer.Option(help="Share of the tasks that is held out.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Chooses the tasks.")] = 0,
) -> None:
    """Divide it by task: no task is in both parts."""
    from agentmem.failures import ConfigError
    from agentmem.memory.bank.pictures import moved
    from agentmem.memory.bank.records import read_bank
    from agentmem.memory.bank.splitting import split as divided

    parts = divided(read_bank(bank), share, seed)
    if train.absolute() == held_out.absolute():
        raise ConfigError(f"--held-out is {held_out}: the same file as --train")
    for option, path in (("--train", train), ("--held-out", held_out)):
        if path.exists():
            raise ConfigError(f"{option} {path}: is there already; choose another name, or remove it")
    for option, path, records in zip(("--train", "--held-out"), (train, held_out), parts, strict=True):
        _write(option, path, [moved(record, bank.parent, path.parent) for record in records])
        typer.echo(f"{path}: {len(records)} records of {len({r.task for r in records})} tasks")


@app.command()
def check(
    bank: Bank,
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Tasks that it must not hold: ENV-SPLIT, as minesweeper-eval, or another bank (repeatable).",
            metavar="ENV-SPLIT|BANK",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Option of the environment of --against: --set size=5 (repeatable)."),
    ] = None,
) -> None:
    """Look at every field of every line, and for test tasks; exit 1 if anything is wrong."""
    from agentmem.config.load import parse_assignments
    from agentmem.failures import ConfigError
    from agentmem.memory.bank.pictures import read_pictures
    from agentmem.memory.bank.records import read_records
    from agentmem.memory.bank.splitting import forbidden_records

    if overrides and not against:
        raise ConfigError(f"--set {overrides[0]}: belongs to --against, which isn't given")
    options = parse_assignments(overrides or ())
    forbidden: dict[Task, str] = {}
    for name in against or ():
        forbidden |= _tasks(name, options)
    numbered, faults = read_records(bank)
    faults = sorted([*faults, *read_pictures(bank, numbered)[1]], key=lambda fault: fault.line)
    lines = [str(fault) for fault in faults]
    number_of = {record.id: number for number, record in numbered}
    for record in forbidden_records([record for _, record in numbered], forbidden):
        where = forbidden.get(record.task, f"a task of the split {record.split.value}")
        told = f"{record.domain} {record.task_id!r} is {where}"
        lines.append(f"line {number_of[record.id]}, field task_id: {told}")
    for line in lines[:LISTED]:
        typer.echo(line)
    if len(lines) > LISTED:
        typer.echo(f"... and {len(lines) - LISTED} more")
    if lines or not numbered:
        typer.echo(f"{bank}: {len(lines)} faults" if lines else f"{bank} holds no record")
        raise typer.Exit(1)
    what = f", none of them in {' or '.join(against)}" if against else ""
    typer.echo(f"{bank}: {len(numbered)} sound records of {len({r.task for _, r in numbered})} tasks{what}")


def _config(model: str, url: str | None, overrides: list[str]) -> BankConfig:
    from agentmem.config.bank import BankConfig
    from agentmem.config.load import checked, override
    from agentmem.failures import ConfigError

    tree: dict[str, Any] = {"model": model, "engine": {"max_num_seqs": ENGINE_AT_ONCE}}
    if url is not None:
        tree["endpoint"] = {"url": url}
    elif any(one.startswith("endpoint.") for one in overrides):
        raise ConfigError("--set endpoint.…: belongs to --url, which isn't given")
    return checked(override(tree, overrides), BankConfig)


def _tasks(name: str, options: dict[str, Any]) -> dict[Task, str]:
    """The tasks of `ENV-SPLIT` or of a bank, each with what to call it by."""
    from agentmem.failures import ConfigError
    from agentmem.memory.bank.records import read_bank
    from envs.registry import ENVIRONMENTS, SPLITS, instances

    if name.endswith(".jsonl"):
        return dict.fromkeys((record.task for record in read_bank(Path(name))), f"in {name}, too")
    env, _, part = name.rpartition("-")
    if env not in ENVIRONMENTS or part not in SPLITS:
        raise ConfigError(
            f"--against {name}: must be an environment and a split of it ({', '.join(SPLITS)}), as "
            "minesweeper-eval, or another bank (*.jsonl)"
        )
    return dict.fromkeys(((env, str(i)) for i in instances(env, options, part)), f"an instance of {name}")


def _write(option: str, path: Path, records: list[BankRecord]) -> None:
    """All of a file, or none of it."""
    import os

    import msgspec

    from agentmem.failures import ConfigError

    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
        os.replace(part, path)
    except OSError as error:
        raise ConfigError(f"{option} {path}: can't write there: {error.strerror}") from error


def _told(tally: Tally) -> str:
    """What became of the jobs, in a few lines; what didn't happen isn't mentioned."""
    jobs = [
        (tally.written, "written"),
        (tally.present, "in the bank already"),
        (tally.duplicates, "said what another record says of the same situation"),
        (tally.too_long, "too long for the writer's context"),
        (tally.refused, "refused by the endpoint"),
        (tally.empty, "answered without a hint"),
    ]
    notes = [
        (tally.cut, "cut at the limit, at the last full sentence"),
        (tally.unzoomed, "without a decisive step, so written from the whole"),
    ]
    lines = [f"{'hints':<12}{tally.jobs} = " + " + ".join(f"{n} {what}" for n, what in jobs if n)]
    lines += [f"{'':<12}{n} {what}" for n, what in notes if n]
    lines.append(
        f"{'questions':<12}{tally.asked} asked, {tally.remembered} answered before; tokens read "
        f"{tally.prompt_tokens}, written {tally.completion_tokens}"
    )
    return "\n".join(lines)


def _readable(seen: dict[str, Any]) -> str:
    def pairs(values: dict[str, Any]) -> str:
        return ", ".join(f"{name} {value}" for name, value in values.items())

    rows = [
        ("records", f"{seen['records']} of {seen['tasks']} tasks"),
        ("domains", pairs(seen["domains"])),
        ("splits", pairs(seen["splits"])),
        ("kinds", pairs(seen["kinds"])),
        ("writers", pairs(seen["writers"])),
        ("prompts", pairs(seen["prompt_versions"])),
        *((f"words of {name}", pairs(spread)) for name, spread in seen["words"].items()),
        ("cut", f"{seen['cut']} at their limit"),
        ("duplicates", str(seen["duplicates"])),
        ("tokens", f"read {seen['prompt_tokens']}, written {seen['completion_tokens']}"),
    ]
    return "\n".join(f"{name:<12}{text}" for name, text in rows)

"""The command line. Each command imports what it needs when it runs, so that `--help` is instant.

An `AgentMemError` is printed as one line and ends the program with its class's exit status.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from agentmem.app.advise_cli import app as advise_app
from agentmem.app.arms_cli import arms as arms_command
from agentmem.app.bank_cli import app as bank_app
from agentmem.app.buffer_cli import app as buffer_app
from agentmem.app.control_cli import register as register_control
from agentmem.app.data_cli import app as data_app
from agentmem.app.deploy_cli import app as deploy_app
from agentmem.app.ops_cli import doctor, submit

app = typer.Typer(
    name="agentmem",
    help="Train LLM agents that learn through memory.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
envs_app = typer.Typer(help="Environments: list, check, play, bench.", no_args_is_help=True)
model_app = typer.Typer(help="Models made here.", no_args_is_help=True)
app.add_typer(envs_app, name="envs")
app.add_typer(model_app, name="model")
app.add_typer(buffer_app, name="buffer")
app.add_typer(bank_app, name="bank")
app.add_typer(advise_app, name="advise")
app.add_typer(data_app, name="data")
app.add_typer(deploy_app, name="deploy")
app.command()(doctor)
app.command()(submit)
app.command("arms")(arms_command)
register_control(app)

Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="Override a setting: --set learner.lr=1e-5 (repeatable).")
]


@app.command()
def run(
    recipe: Annotated[str, typer.Argument(help="A name of `agentmem recipes`, or a YAML file.")],
    overrides: Overrides = None,
    resume: Annotated[
        str | None, typer.Option("--resume", help="Go on with RUN (id, path, or `last`).", metavar="RUN")
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Append the result to benchmarks/results/learning.jsonl.")
    ] = False,
    results: Annotated[
        Path | None, typer.Option(help="With --record: the file to append to instead.", metavar="FILE")
    ] = None,
    arm: Annotated[str, typer.Option(help="With --record: the name of the arm that this is a run of.")] = "",
    notes: Annotated[str, typer.Option(help="With --record: what else there is to say of it.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print configuration and placement, check all, and stop.")
    ] = False,
    static: Annotated[
        bool, typer.Option("--static", help="With --dry-run: start nothing, play no trial.")
    ] = False,
) -> None:
    """Train an agent."""
    from agentmem.app.training.run import Recording, train
    from agentmem.config import load_config
    from agentmem.failures import ConfigError

    for option, given in (("--results", results), ("--arm", arm), ("--notes", notes)):
        if given and not record:
            raise ConfigError(f"{option} {given}: belongs to --record, which isn't given")
    if static and not dry_run:
        raise ConfigError("--static: belongs to --dry-run, which isn't given")

    if resume is not None:
        from agentmem.app.training.resume import resumed_config

        config = resumed_config(recipe, resume, overrides or ())
    else:
        config = load_config(recipe, overrides or ())
    if dry_run:
        from agentmem.app import ops_cli
        from agentmem.app.doctor.patient import Patient

        ops_cli.dry_run(Patient(config, recipe, making=not static), static=static)
        return
    train(
        config,
        overrides=overrides or [],
        resume=resume,
        record=Recording(results, arm, notes) if record else None,
    )


@app.command("eval")
def evaluate(
    target: Annotated[str, typer.Argument(help="A run (its final model): id, path, `last`; or a recipe.")],
    overrides: Overrides = None,
    seeds: Annotated[int, typer.Option(help="How many seeds; each chooses its own instances.")] = 1,
    trials_per_task: Annotated[
        int, typer.Option(help="Trials of each instance; more than one give entropy and worst task.")
    ] = 1,
    prompting: Annotated[
        str | None, typer.Option(help="A baseline without training: zero-shot, react or reflexion.")
    ] = None,
    mask: Annotated[
        list[str] | None,
        typer.Option(
            help="Play second episodes again, less a piece of memory: "
            "reflection, summary, all, line:N, nothing; "
            "or control: as much of the summary in the reflection's place (repeatable)."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a report with plots, one file without others.", metavar="FILE")
    ] = None,
    adapt: Annotated[
        int | None, typer.Option(help="Attempts of each instance, with the tips of the earlier ones.")
    ] = None,
) -> None:
    """Evaluate a model with frozen weights on held-out instances."""
    if adapt is not None:
        from agentmem.app.evaluation.adapt import adapt_target
        from agentmem.failures import ConfigError

        for option, given in (("--prompting", prompting), ("--html", html)):
            if given is not None:
                raise ConfigError(f"{option}: can't go together with --adapt")
        if trials_per_task != 1:
            raise ConfigError(f"--trials-per-task is {trials_per_task}: with --adapt it is 1")
        adapt_target(target, adapt, seeds=seeds, overrides=overrides or ())
        return
    from agentmem.app.evaluation.run import evaluate_target

    evaluate_target(
        target,
        seeds=seeds,
        trials_per_task=trials_per_task,
        prompting=prompting,
        masks=mask or (),
        overrides=overrides or (),
        html=html,
    )


@app.command()
def compare(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            help="Runs, evaluations or files of trials; NAME=TARGET names one. One alone: its conditions. "
            "Directories of `agentmem arms`: a seed each, as one table.",
            metavar="TARGET...",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Directories of arms: print Markdown instead of text.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a report with plots, one file without others.", metavar="FILE")
    ] = None,
    sweep: Annotated[
        Path | None,
        typer.Option(help="Run what is missing of a sweep (YAML); print its tables.", metavar="FILE"),
    ] = None,
    table: Annotated[bool, typer.Option("--table", help="With --sweep: run nothing, print tables.")] = False,
    results: Annotated[
        Path | None,
        typer.Option(help="Recorded results (default: benchmarks/results/learning.jsonl).", metavar="FILE"),
    ] = None,
) -> None:
    """Compare evaluations task by task; or run what is missing of a sweep, and print tables of it."""
    from agentmem.failures import ConfigError

    if sweep is not None:
        from agentmem.app.sweeps.run import run_sweep

        if targets or as_json or html is not None:
            raise ConfigError(
                f"--sweep {sweep}: it has runs of its own; no TARGET, --json or --html beside it"
            )
        run_sweep(sweep, results=results, table_only=table, say=typer.echo)
        return
    if table or results is not None:
        raise ConfigError("--table and --results belong to --sweep FILE, which isn't given")
    if not targets:
        raise ConfigError("nothing to compare: name runs, evaluations or files of trials, or --sweep FILE")
    from agentmem.app.evaluation.arms.reading import are_arms

    if html is None and are_arms(targets):
        from agentmem.app.evaluation.arms.reading import report_of
        from agentmem.app.evaluation.arms.table import as_json as arms_json
        from agentmem.app.evaluation.arms.table import as_markdown as arms_markdown
        from agentmem.app.evaluation.arms.table import as_text as arms_text

        report = report_of([Path(target) for target in targets])
        typer.echo((arms_json if as_json else arms_markdown if markdown else arms_text)(report))
        return
    if markdown:
        raise ConfigError("--markdown is for directories of `agentmem arms` alone; others have --html")
    from agentmem.app.evaluation.comparison import compare as compared
    from agentmem.app.evaluation.comparison_text import as_json as json_of
    from agentmem.app.evaluation.comparison_text import as_text
    from agentmem.app.evaluation.sources import load_sources

    sources = load_sources(targets)
    found = compared(sources)
    typer.echo(json_of(found) if as_json else as_text(found))
    if html is not None:
        from agentmem.app.evaluation.html.page import write_page

        write_page(html, found, sources)
        typer.echo(f"report: {html}", err=as_json)


@app.command()
def recipes() -> None:
    """List the recipes."""
    from agentmem.config import list_recipes

    found = list_recipes()
    width = max(map(len, found))
    for name, about in found.items():
        typer.echo(f"{name:<{width}}  {about}")


@app.command()
def config(recipe: Annotated[str, typer.Argument(help="Recipe.")], overrides: Overrides = None) -> None:
    """Print a recipe's whole configuration tree as it would run."""
    from agentmem.config import load_config, to_yaml

    typer.echo(to_yaml(load_config(recipe, overrides or ())), nl=False)


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="Run: id, path, or `last`.")],
    trial: Annotated[str | None, typer.Option(help="Which example (number or ticket id).")] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the recorded examples.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write the trial as a page of HTML instead.", metavar="FILE")
    ] = None,
) -> None:
    """Print an example trial of a run: boards, prompts, answers, hints, rewards, advantages, reflections."""
    from agentmem.app.reporting.show import show_run, write_page
    from agentmem.failures import ConfigError

    if html is not None:
        if listing:
            raise ConfigError(f"--html {html}: writes one trial, so it can't go together with --list")
        write_page(run, trial, html)
        typer.echo(f"page: {html}")
        return
    typer.echo(show_run(run, trial=trial, listing=listing))


@app.command()
def publish(
    run: Annotated[str, typer.Argument(help="Run: id, path, or `last`.")],
    to: Annotated[list[str], typer.Option(help="Sink: tensorboard, wandb or mlflow (repeatable).")],
) -> None:
    """Hand a run's measurements to a sink, from where it stopped."""
    from agentmem.app.sinks.publisher import publish_run

    for line in publish_run(run, to):
        typer.echo(line)


@app.command()
def vectors(file: Annotated[Path, typer.Argument(help="Test vectors (JSON).")]) -> None:
    """Run every section of a vectors file through our functions; exit 1 above an error of 1e-6."""
    from agentmem.failures import ConfigError
    from learner.vectors import VectorsError, check

    try:
        sections = check(file)
    except VectorsError as error:
        raise ConfigError(str(error)) from error
    for section in sections:
        state = section.problem or f"max error {section.max_error:.2e}"
        typer.echo(f"{section.name:<24} {section.cases:>4} cases  {state}")
    failed = [section.name for section in sections if not section.passed]
    if failed:
        typer.echo(f"error: sections above 1e-6 or not run: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


def _options(overrides: list[str] | None) -> dict[str, object]:
    """`--set size=5` -> {"size": 5}."""
    from agentmem.config.load import parse_assignments

    return parse_assignments(overrides or ())


def _in_its_own_python(name: str, options: dict[str, object]) -> None:
    """Become this command in the environment's own virtual environment, if it has one and this isn't it."""
    from envs.interpreter import interpreter, runs_here
    from envs.registry import spec

    python = interpreter(spec(name, options))
    if not runs_here(python):
        os.execv(python, [python, "-m", "agentmem", *sys.argv[1:]])


@envs_app.command("list")
def envs_list() -> None:
    """What there is, and what is missing."""
    from envs.selftest import overview

    typer.echo("\n".join(overview()))


@envs_app.command("check")
def envs_check(name: str, overrides: Overrides = None) -> None:
    """Say whether an environment can run here, and try its contract on one instance; exit 1 if not."""
    from envs.registry import check
    from envs.selftest import selftest

    missing = check(name, _options(overrides))
    if missing:
        typer.echo("\n".join(missing))
        raise typer.Exit(1)
    findings = selftest(name, _options(overrides))
    for finding in findings:
        typer.echo(f"{'ok  ' if finding.good else 'FAIL'}  {finding.what}")
    if not all(finding.good for finding in findings):
        raise typer.Exit(1)
    typer.echo(f"{name}: ready")


@envs_app.command("play")
def envs_play(
    name: str,
    overrides: Overrides = None,
    instance: Annotated[str | None, typer.Option(help="Which instance (default: a random one).")] = None,
) -> None:
    """Play an environment in the terminal."""
    from envs.play import play

    _in_its_own_python(name, _options(overrides))
    play(name, _options(overrides), instance=instance)


@envs_app.command("bench")
def envs_bench(
    name: str,
    overrides: Overrides = None,
    seconds: Annotated[float | None, typer.Option(help="For how long (default: 3, or 20).")] = None,
) -> None:
    """Steps per second, reset time and memory."""
    from envs.play import bench

    _in_its_own_python(name, _options(overrides))
    for key, value in bench(name, _options(overrides), seconds=seconds).items():
        typer.echo(f"{key:<20} {value:,.3f}")


@model_app.command("tiny")
def model_tiny(
    recipe: Annotated[str, typer.Argument(help="The recipe that it is for.")] = "lamer-minesweeper",
    overrides: Overrides = None,
) -> None:
    """Make the tiny model of a recipe and warm it up (or reuse it); print its directory."""
    from agentmem.app.models.resolve import resolve_for
    from agentmem.config import load_config

    typer.echo(str(resolve_for(load_config(recipe, ["policies.agent.model=tiny", *(overrides or ())]))))


@model_app.command("memory")
def model_memory(
    source: Annotated[Path, typer.Argument(help="A model's directory in Hugging Face format.")],
    out: Annotated[Path, typer.Option("--out", help="The directory to write to.")],
) -> None:
    """Give a model Mem-π's decision tokens, untrained: a memory policy without its Stage 1."""
    from agentmem.chat.decision_model import write_memory_model
    from agentmem.failures import ConfigError

    if out.exists():
        raise ConfigError(f"--out {out}: is there already; choose another name, or remove it")
    write_memory_model(source, out)
    typer.echo(str(out))


def main() -> None:
    """Entry point of the console script."""
    from agentmem.failures import AgentMemError, ConfigError
    from envs.options import EnvSetupError

    try:
        app()
    except AgentMemError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    except EnvSetupError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(ConfigError.exit_code)

"""`agentmem doctor` and `agentmem submit`: before a run on a cluster, and onto it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from agentmem.app.doctor.patient import Patient
    from agentmem.app.jobs.client import Ended, Jobs

Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="Override a setting: --set learner.lr=1e-5 (repeatable).")
]
Include = Annotated[
    list[Path] | None,
    typer.Option(
        help="Upload this file or folder of the working directory, too (repeatable).", metavar="PATH"
    ),
]


Venv = Annotated[
    str,
    typer.Option(help="A virtual environment on the nodes, whose Python runs the job.", metavar="DIR"),
]
Runs = Annotated[
    str,
    typer.Option(
        help="Directory of runs on the nodes' common volume (default: their AGENTMEM_RUNS).", metavar="DIR"
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        help="A variable of the job: --env NAME=VALUE; never a secret (repeatable).", metavar="NAME=VALUE"
    ),
]
NoCode = Annotated[bool, typer.Option("--no-code", help="Upload no code: the nodes' image has AgentMem.")]


def doctor(
    recipe: Annotated[str, typer.Argument(help="A name of `agentmem recipes`, or a YAML file.")],
    overrides: Overrides = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Of a Ray cluster: HOST:PORT to join it from here (default: RAY_ADDRESS, or none), or "
            "http://HEAD:8265 to be examined there, as a job."
        ),
    ] = None,
    static: Annotated[bool, typer.Option("--static", help="Start nothing; play no trial.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
    include: Include = None,
    venv: Venv = "",
    runs: Runs = "",
    env: Env = None,
    no_code: NoCode = False,
) -> None:
    """Check all that a run needs, before it starts; the exit status says what is wrong."""
    from agentmem.app.doctor.patient import Patient
    from agentmem.config import load_config
    from agentmem.failures import ConfigError

    config = load_config(recipe, overrides or ())
    if address is not None and "://" in address:
        if static:
            raise ConfigError(f"--static: nothing is started, so nothing is asked at {address}")
        ended, output = _as_job("doctor", recipe, overrides or [], address, include, venv, runs, env, no_code)
        _tell_from_afar(ended, output, as_json=as_json)
        return
    for option, given in (("--venv", venv), ("--runs", runs), ("--env", env), ("--no-code", no_code)):
        if given:
            raise ConfigError(f"{option}: belongs to --address http://HEAD:8265, which isn't given")
    patient = Patient(config, recipe, address or "", making=not static, include=tuple(include or ()))
    examined(patient, static=static, as_json=as_json)


def submit(
    recipe: Annotated[str, typer.Argument(help="A name of `agentmem recipes`, or a YAML file.")],
    overrides: Overrides = None,
    address: Annotated[
        str,
        typer.Option(help="Of the cluster's dashboard.", envvar="RAY_API_SERVER_ADDRESS", show_default=False),
    ] = "",
    resume: Annotated[
        str | None,
        typer.Option("--resume", help="Go on with RUN (id or `last`) of the nodes.", metavar="RUN"),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Show its output until it ends.")] = False,
    venv: Venv = "",
    runs: Runs = "",
    include: Include = None,
    env: Env = None,
    no_code: NoCode = False,
    stop_wait: Annotated[
        int, typer.Option(help="Seconds that a stop leaves for the last checkpoint.", metavar="S")
    ] = 60,
    name: Annotated[str, typer.Option(help="The job's id (default: recipe and time).")] = "",
) -> None:
    """Start a run as a job of a Ray cluster."""
    from agentmem.app.jobs.package import package
    from agentmem.app.jobs.submission import Surroundings, submission
    from agentmem.config import load_config

    load_config(recipe, overrides or ())  # a wrong setting is said here, not by a job
    around = Surroundings(venv, runs, stop_wait, _variables(env))
    options = [] if resume is None else ["--resume", resume]
    job = submission("run", recipe, overrides or [], around, options, name)
    files = package(recipe, include or (), code=not no_code)
    files.check()
    jobs = _jobs(address)
    typer.echo(
        f"uploading {files} (limit 100 MiB)" if files.files else "uploading nothing: the nodes have the code"
    )
    started = jobs.submit(job, files, typer.echo)
    typer.echo(f"job {started} at {jobs.address}: {job.command.removeprefix('exec ')}")
    typer.echo(
        f"  follow  ray job logs --address {jobs.address} -f {started}\n"
        f"  stop    ray job stop --address {jobs.address} {started}   (up to {stop_wait} s to save)\n"
        f"  go on   the same command with --resume last"
    )
    if follow and (status := _followed(jobs, started)):
        raise typer.Exit(status)


def _variables(env: Sequence[str] | None) -> dict[str, str]:
    from agentmem.failures import ConfigError

    found = {}
    for each in env or ():
        name, given, value = each.partition("=")
        if not given or not name:
            raise ConfigError(f"--env {each}: write it as NAME=VALUE")
        found[name] = value
    return found


def _jobs(address: str) -> Jobs:
    from agentmem.app.jobs.client import Jobs
    from agentmem.failures import ConfigError

    if not address:
        raise ConfigError("--address: the cluster's dashboard is needed, such as http://head:8265")
    return Jobs(address)


def _followed(jobs: Jobs, job: str) -> int:
    """Show its output until it ends; the exit status that is its driver's. Ctrl-C leaves it running."""
    from rich.console import Console

    from agentmem.app.jobs.follow import FollowView

    async def watch() -> None:
        async for piece in jobs.follow(job):
            view.feed(piece)

    try:
        with FollowView(job, Console()) as view:
            asyncio.run(watch())
    except KeyboardInterrupt:
        typer.echo(f"job {job} goes on without being followed")
        return 0
    ended = jobs.ended(job)
    assert ended is not None
    typer.echo(
        f"job {job}: {ended.status.lower()}" + (f" ({ended.exit_status})" if ended.exit_status else "")
    )
    return ended.exit_status


def _as_job(
    verb: str,
    recipe: str,
    overrides: Sequence[str],
    address: str,
    include: Sequence[Path] | None,
    venv: str,
    runs: str,
    env: Sequence[str] | None,
    no_code: bool,
) -> tuple[Ended, str]:
    """`agentmem VERB --json` on a cluster: how it ended, and what it printed."""
    from agentmem.app.jobs.package import package
    from agentmem.app.jobs.submission import Surroundings, submission

    job = submission(verb, recipe, overrides, Surroundings(venv, runs, env=_variables(env)), ["--json"])
    files = package(recipe, include or (), code=not no_code)
    jobs = _jobs(address)
    typer.echo(f"asking the cluster at {jobs.address} (uploading {files})", err=True)
    started = jobs.submit(job, files, lambda line: typer.echo(line, err=True))

    async def output() -> str:
        return "".join([piece async for piece in jobs.follow(started)])

    text = asyncio.run(output())
    ended = jobs.ended(started)
    assert ended is not None
    return ended, text


def _tell_from_afar(ended: Ended, output: str, *, as_json: bool) -> None:
    """The findings that a doctor's job printed. Raises what kept it from telling any."""
    from agentmem.app.doctor.doctor import WIDTH
    from agentmem.app.doctor.finding import from_json, line, summary
    from agentmem.failures import InfrastructureError

    for told in reversed(output.splitlines()):
        if told.startswith("{"):
            findings = from_json(told)
            break
    else:
        last = (output.strip().splitlines() or [ended.message or "no output"])[-1]
        raise InfrastructureError(f"the doctor's job ended ({ended.status.lower()}) without findings: {last}")
    typer.echo(told if as_json else "\n".join([*(line(f, WIDTH) for f in findings), summary(findings)]))
    if ended.exit_status:
        raise typer.Exit(ended.exit_status)


def examined(patient: Patient, *, static: bool, as_json: bool = False) -> None:
    """Tell the findings; raise typer.Exit with their status if it isn't 0."""
    from agentmem.app.doctor.doctor import WIDTH, diagnose
    from agentmem.app.doctor.finding import Finding, exit_status, line, summary
    from agentmem.app.doctor.finding import as_json as json_of

    def tell(finding: Finding) -> None:
        if not as_json:
            typer.echo(line(finding, WIDTH))

    findings = diagnose(patient, static=static, tell=tell)
    typer.echo(json_of(patient.config.recipe, findings) if as_json else summary(findings))
    if status := exit_status(findings):
        raise typer.Exit(status)


def dry_run(patient: Patient, *, static: bool) -> None:
    """`agentmem run --dry-run`: the configuration as it would run, the placement, and `doctor`."""
    from agentmem.app.doctor.cluster import table
    from agentmem.app.live.joining import learner_request, resources
    from agentmem.config import to_yaml

    config = patient.config
    requests = [learner_request(config)] if config.method == "mempi-stage1" else resources(config)
    typer.echo(to_yaml(config))
    typer.echo("placement:\n" + "\n".join(f"  {row}" for row in table(requests)) + "\n")
    examined(patient, static=static)

"""`agentmem doctor` and `agentmem submit`: before a run on a cluster, and onto it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from agentmem.app.doctor.patient import Patient

Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="Override a setting: --set learner.lr=1e-5 (repeatable).")
]
Include = Annotated[
    list[Path] | None,
    typer.Option(
        help="Upload this file or folder of the working directory, too (repeatable).", metavar="PATH"
    ),
]


def doctor(
    recipe: Annotated[str, typer.Argument(help="A name of `agentmem recipes`, or a YAML file.")],
    overrides: Overrides = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Of a Ray cluster: HOST:PORT to join it from here (default: RAY_ADDRESS, or none)."
        ),
    ] = None,
    static: Annotated[bool, typer.Option("--static", help="Start nothing; play no trial.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
    include: Include = None,
) -> None:
    """Check all that a run needs, before it starts; the exit status says what is wrong."""
    from agentmem.app.doctor.patient import Patient
    from agentmem.config import load_config

    config = load_config(recipe, overrides or ())
    patient = Patient(config, recipe, address or "", making=not static, include=tuple(include or ()))
    examined(patient, static=static, as_json=as_json)


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

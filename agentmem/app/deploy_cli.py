"""`agentmem deploy render`: dashboards, alert rules and Kubernetes manifests as files. Applies nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="What a cluster needs around a run: render it as files.", no_args_is_help=True)

GPU_RECIPE, DEV_RECIPE = "lamer-sokoban-paper", "lamer-minesweeper"


@app.callback()
def _group() -> None:
    """Keeps `render` a command of its own."""


@app.command()
def render(
    recipe: Annotated[str, typer.Argument(help="The recipe of the GPU overlays.")] = GPU_RECIPE,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override a setting of the run (repeatable).")
    ] = None,
    cluster: Annotated[
        list[str] | None,
        typer.Option("--with", help="Override a setting of the cluster: --with gpu_machine.gpus=4."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The directory to write to.")] = Path("deploy"),
) -> None:
    """Write the files of `deploy/` for a run's configuration."""
    from agentmem.app.deploy.render import write

    files = default_files(recipe, overrides or [], cluster or [])
    write(files, out)
    typer.echo(f"{out}: {len(files)} files")


def default_files(
    recipe: str = GPU_RECIPE, overrides: list[str] | None = None, cluster: list[str] | None = None
) -> dict[str, str]:
    """Path -> text. Raises ConfigError."""
    from agentmem.app.deploy.render import Plan, rendered
    from agentmem.app.deploy.settings import ClusterSettings
    from agentmem.config import load_config
    from agentmem.config.load import checked, parse_assignments

    given = tuple(overrides or ())
    settings = checked(parse_assignments(cluster or []), ClusterSettings)
    gpu = Plan(load_config(recipe, given), given)
    return rendered(gpu, Plan(load_config(DEV_RECIPE)), settings)

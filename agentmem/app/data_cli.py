"""`agentmem data fetch NAME|all` and `agentmem data status`: the environments' data."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="The environments' data: fetch, status.", no_args_is_help=True)


@app.command()
def fetch(name: Annotated[str, typer.Argument(help="An environment, or `all`.")]) -> None:
    """Download what an environment needs into AGENTMEM_DATA; exit 1 if anything is still missing."""
    from agentmem.app.fetch import DataFileError, FetchError
    from agentmem.app.fetch import fetch as fetched
    from envs.data import data_dir
    from envs.registry import spec
    from envs.sources import sources

    if name != "all":
        spec(name)
    wanted = sources(name)
    if not wanted and name != "lab-os":
        typer.echo(f"{name} needs no data")
        return
    failed = 0
    for source in wanted:
        try:
            typer.echo(f"{source.path}  {'fetched' if fetched(source, data_dir()) else 'already there'}")
        except (FetchError, DataFileError) as error:
            failed += 1
            typer.echo(f"error: {error}", err=True)
    if name in ("lab-os", "all"):
        _make_root()
    if failed:
        raise typer.Exit(1)


def _make_root() -> None:
    """The Linux tasks' root directory, where it can be made; `envs check lab-os` tells why it can't."""
    from envs.lab.shell.box import lacking
    from envs.lab.shell.root import root_directory
    from envs.options import EnvSetupError

    if problems := lacking():
        typer.echo("\n".join(problems), err=True)
        return
    try:
        typer.echo(f"root directory of the boxes  {root_directory('')}")
    except EnvSetupError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


@app.command()
def status() -> None:
    """Every file: whether it is there with the right content, and whether it can be downloaded."""
    from agentmem.app.fetch import state
    from envs.data import data_dir
    from envs.sources import SOURCES

    typer.echo(f"data directory: {data_dir()}")
    width = max(len(source.path) for source in SOURCES)
    for source in SOURCES:
        found = state(source, data_dir())
        how = f"agentmem data fetch {source.env}" if source.url else f"no public download: {source.note}"
        remark = "" if found == "present" else f"  {how}"
        typer.echo(f"{source.env:<10} {source.path:<{width}} {source.size / 1e6:>6.2f} MB  {found}{remark}")

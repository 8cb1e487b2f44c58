"""`agentmem arms`: Mem-π beside what it is compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def arms(
    target: Annotated[
        str, typer.Argument(help="Recipe of method mempi; or a run, whose final model is then --full.")
    ],
    bank: Annotated[Path, typer.Option("--bank", help="The experience bank.")],
    out: Annotated[
        Path, typer.Option("--out", help="Directory of this seed; one that exists is gone on with.")
    ],
    arms: Annotated[
        str | None,
        typer.Option(
            "--arms",
            help="Which, as none,rag,full; default: all. `none` is always played.",
            metavar="ARM,...",
        ),
    ] = None,
    stage1: Annotated[
        str | None, typer.Option(help="The model after Stage 1: a run or a directory.", metavar="RUN|DIR")
    ] = None,
    full: Annotated[
        str | None, typer.Option(help="The model after Stage 2: a run or a directory.", metavar="RUN|DIR")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Names the seed, draws training tasks for rag-abstain and memrl.")
    ] = 0,
    tasks: Annotated[int | None, typer.Option(help="Held-out tasks (default: evaluation.tasks).")] = None,
    fit_tasks: Annotated[int, typer.Option(help="Training tasks that rag-abstain and memrl learn on.")] = 64,
    known: Annotated[
        list[Path] | None,
        typer.Option(
            help="A directory of arms whose trials a scripted agent needn't play again (repeatable).",
            metavar="DIR",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override a setting (repeatable).")
    ] = None,
) -> None:
    """Play hints of nine origins for one frozen agent, on the same held-out tasks. `compare` reads seeds."""
    from agentmem.app.evaluation.arms.run import run_arms

    run_arms(
        target,
        bank=bank,
        out=out,
        arms=arms,
        stage1=stage1,
        full=full,
        seed=seed,
        tasks=tasks,
        fit_tasks=fit_tasks,
        known=known or (),
        overrides=overrides or (),
    )

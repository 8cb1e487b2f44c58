"""`agentmem advise serve|ask`: a trained memory policy (Mem-π) for programs that aren't AgentMem's."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

app = typer.Typer(
    help="A trained memory policy (Mem-π): serve its advice, ask for one.", no_args_is_help=True
)

Target = Annotated[
    str,
    typer.Argument(
        help="A run of mempi (id, path, `last`), a model's directory with --recipe, or a recipe.",
        metavar="MODEL_OR_RUN",
    ),
]
Recipe = Annotated[
    str | None, typer.Option(help="Of a model's directory: the recipe that says how it is asked.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a setting: --set engines.memory.backend=torch (repeatable)."),
]
STDIN = "-"


@app.command()
def serve(
    target: Target,
    recipe: Recipe = None,
    overrides: Overrides = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; not this machine alone: needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8765,
    token_env: Annotated[
        str, typer.Option(help="Environment variable with the bearer token; unset: none is asked for.")
    ] = "AGENTMEM_ADVICE_TOKEN",
    longest_body: Annotated[int, typer.Option(min=1024, help="Bytes of a request's body.")] = 1 << 20,
    most: Annotated[int, typer.Option(min=1, help="Questions under way at once; more are refused.")] = 1024,
) -> None:
    """Answer `POST /v1/advise` until SIGTERM or Ctrl-C."""
    from agentmem.app.advice.serve import serve as serving
    from agentmem.app.advice.source import source_of

    source = source_of(target, recipe, overrides or ())

    def say(line: str) -> None:
        typer.echo(line)
        sys.stdout.flush()  # whoever started us through a pipe waits for it

    serving(source, host=host, port=port, token_env=token_env, longest_body=longest_body, most=most, say=say)


@app.command()
def ask(
    target: Target,
    query: Annotated[str, typer.Option(help="The task, as the agent is told it.")],
    observation: Annotated[
        str, typer.Option(help="What the agent sees first; `-` reads it from stdin.")
    ] = "",
    domain: Annotated[str, typer.Option(help="Of a policy for several environments: which it is.")] = "",
    recipe: Recipe = None,
    overrides: Overrides = None,
    threshold: Annotated[float | None, typer.Option(help="τ of this question.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Longest hint.")] = None,
    timeout_s: Annotated[float | None, typer.Option(help="An answer that takes longer abstains.")] = None,
) -> None:
    """Load the model, ask one question, print the answer as a line of JSON."""
    import msgspec

    from agentmem.app.advice.source import open_advisor, source_of

    source = source_of(target, recipe, overrides or ())
    seen = sys.stdin.read() if observation == STDIN else observation
    with open_advisor(source) as advisor:
        said = advisor.advise(
            query, seen, domain=domain, threshold=threshold, max_tokens=max_tokens, timeout_s=timeout_s
        )
    typer.echo(msgspec.json.encode(said).decode())

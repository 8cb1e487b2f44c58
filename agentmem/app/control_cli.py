"""`agentmem scale RUN …` and `agentmem status RUN`: look at a run that goes on, and change its sizes.

RUN is an id, a path, or `last` where the run's directory is; elsewhere the run's full name, with the address
of its replay server in `--redis` (`redis://***@host` takes the password from AGENTMEM_REDIS_PASSWORD).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from agentmem.replay import ReplayBuffer

Run = Annotated[str, typer.Argument(help="Run: id, path, or `last`; with --redis its full name.")]
Redis = Annotated[
    str | None, typer.Option("--redis", help="The run's replay server, where its directory isn't.")
]
WATCH_S = 2.0


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("scale")(scale)
    app.command("status")(status)


def scale(
    run: Run,
    numbers: Annotated[
        list[str],
        typer.Argument(
            help="env-workers=N agents=N generators=N engines.POLICY=N; `auto` takes a wish back.",
            metavar="KIND=N...",
            show_default=False,
        ),
    ],
    redis: Redis = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Make the wish and don't follow.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to follow for, at most.", min=1)] = 900.0,
) -> None:
    """Change the numbers of a run's parts while it goes on; follow until they are there."""
    from agentmem.app.control.scale import parse
    from agentmem.app.control.scale import scale as wish
    from agentmem.app.reporting.run_buffer import open_buffer

    wanted = parse(numbers)
    with open_buffer(run, redis) as buffer:
        wish(buffer, wanted, wait=not no_wait, timeout_s=timeout, say=typer.echo)


def status(
    run: Run,
    redis: Redis = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on looking, every two seconds.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    prometheus: Annotated[
        str | None, typer.Option(help="Also ask this Prometheus for firing alerts.", metavar="URL")
    ] = None,
) -> None:
    """How a run stands: throughput, queues, staleness, parts, accounting, alarms."""
    from agentmem.app.control import status as told
    from agentmem.app.control.reading import read
    from agentmem.app.reporting.run_buffer import open_buffer

    with open_buffer(run, redis) as buffer:
        if watch:
            _watch(buffer, as_json, prometheus)
            return
        reading = read(buffer)
        alerts = told.firing(prometheus, buffer.run) if prometheus else []
    typer.echo(told.as_json(reading, alerts) if as_json else told.as_text(reading, alerts))


def _watch(buffer: ReplayBuffer, as_json: bool, prometheus: str | None) -> None:
    """Until the run ends or somebody presses Ctrl-C. In a terminal in place, elsewhere one after another;
    JSON is one object a line."""
    import json

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from agentmem.app.control import status as told
    from agentmem.app.control.reading import read

    def look() -> tuple[str, bool]:
        reading = read(buffer)
        alerts = told.firing(prometheus, buffer.run) if prometheus else []
        text = told.as_text(reading, alerts)
        if as_json:
            text = json.dumps(json.loads(told.as_json(reading, alerts)))
        return text, bool(reading.stopped)

    console = Console()
    try:
        if as_json or not console.is_terminal:
            while True:
                text, over = look()
                typer.echo(text if as_json else text + "\n")
                if over:
                    return
                time.sleep(WATCH_S)
        with Live(console=console, auto_refresh=False) as live:
            over = False
            while not over:
                text, over = look()
                live.update(Text(text), refresh=True)
                if not over:
                    time.sleep(WATCH_S)
    except KeyboardInterrupt:
        return

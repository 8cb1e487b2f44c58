"""The live view of a run: a drawn panel in a terminal, a plain line every few seconds elsewhere.

In a terminal a thread redraws twice a second, whatever the program does meanwhile, and what others print
appears above the panel. Elsewhere (a pipe, a file, a job's log) a line is written when the phase changes and
otherwise at most every `interval_s`, without control characters. Calls cost microseconds, so they may be
frequent.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Self

from agentmem.app.reporting.progress import Count, Phase, Progress, clock
from agentmem.app.reporting.records import UpdateRecord

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

_REDRAWS_PER_S = 2
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class LiveView:
    """Context manager. `title`: the run's name; `updates`: of the whole run, `done` of them already."""

    def __init__(
        self,
        title: str,
        updates: int,
        done: int = 0,
        console: Console | None = None,
        interval_s: float = 5.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        from rich.console import Console

        self._console = Console() if console is None else console
        self._title = title
        self._progress = Progress(updates=updates, done=done)
        self._interval = interval_s
        self._now = now
        self._started = now()
        self._written = -1.0
        """Elapsed seconds at the last plain line; below zero: none yet."""
        self._pending = False
        self._live: Live | None = None

    def __enter__(self) -> Self:
        self._started = self._now()
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            from rich.live import Live

            self._live = Live(
                get_renderable=self._draw, console=self._console, refresh_per_second=_REDRAWS_PER_S
            )
            self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        elif self._pending:
            self._write_line()

    def phase(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """What goes on now, and how much of it is done."""
        changed = text != self._progress.phase.text
        self._progress.phase = Phase(text, done, total)
        self._changed(at_once=changed)

    def update(self, record: UpdateRecord) -> None:
        """An update is finished."""
        self._progress.add(record)
        self._changed()

    def status(self, tickets: Mapping[str, Count]) -> None:
        """Tickets by state (or whatever else is to be counted), in the order of the mapping."""
        self._progress.status = dict(tickets)
        self._changed()

    def note(self, line: str) -> None:
        """A line that stays."""
        if self._live is not None:
            self._console.print(line, markup=False, highlight=False)
        else:
            self._write(line)

    @property
    def progress(self) -> Progress:
        """What is known, to be read only."""
        return self._progress

    def _elapsed(self) -> float:
        return self._now() - self._started

    def _changed(self, at_once: bool = False) -> None:
        if self._live is not None:
            return  # the drawing thread sees it
        if at_once or self._written < 0 or self._elapsed() - self._written >= self._interval:
            self._write_line()
        else:
            self._pending = True

    def _write_line(self) -> None:
        self._written = self._elapsed()
        self._pending = False
        self._write(self._progress.line(self._written))

    def _write(self, line: str) -> None:
        stream = self._console.file
        plain = "".join(c if c.isprintable() or c == "\n" else " " for c in _ESCAPES.sub("", line))
        encoding = getattr(stream, "encoding", None) or sys.getdefaultencoding()
        stream.write(plain.encode(encoding, "replace").decode(encoding) + "\n")
        stream.flush()

    def _draw(self) -> RenderableType:
        from rich.console import Group
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        progress = self._progress
        phase = progress.phase
        head = Table.grid(padding=(0, 2))
        head.add_row(Text(str(phase), style="bold"))
        bar = Table.grid(padding=(0, 2))
        if phase.done is not None and phase.total:
            bar.add_row(ProgressBar(total=phase.total, completed=phase.done, width=40), "")
        eta = progress.eta_s()
        times = f"elapsed {clock(self._elapsed())}  ETA {'–' if eta is None else clock(eta)}"
        bar.add_row(
            ProgressBar(total=max(1, progress.updates), completed=progress.done, width=40),
            Text(f"{progress.done}/{progress.updates} updates  {times}"),
        )
        body = Table.grid(padding=(0, 2))
        body.add_column(style="dim")
        body.add_column()
        for label, text in progress.figures().items():
            body.add_row(label, Text(text, style="bold cyan" if label == "solved" else ""))
        if progress.status:
            body.add_row("tickets", Text(progress.tickets()))
        return Panel(Group(head, bar, body), title=Text(self._title), title_align="left", border_style="dim")

"""A job's output as the run's own view: in a terminal the newest progress in a panel, other lines above it;
elsewhere every line as it came."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

_PROGRESS = re.compile(r"^\d+:\d\d:\d\d \| ")
_UPDATES = re.compile(r"^update (\d+)/(\d+)$")
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class FollowView:
    """Context manager; `feed` it with pieces of output, wherever they were cut."""

    def __init__(self, title: str, console: Console, write: Callable[[str], None] | None = None) -> None:
        self._title, self._console = title, console
        self._write = write or self._print
        self._rest = ""
        self._newest = ""
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            from rich.live import Live

            self._live = Live(get_renderable=self._draw, console=self._console, refresh_per_second=2)
            self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._rest:
            self._line(self._rest)
            self._rest = ""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def feed(self, piece: str) -> None:
        """More output."""
        *lines, self._rest = (self._rest + piece).split("\n")
        for line in lines:
            self._line(line)

    @property
    def newest(self) -> str:
        """The last progress line."""
        return self._newest

    def _line(self, line: str) -> None:
        # Another machine's output: nothing in it may steer this terminal.
        plain = "".join(c if c.isprintable() else " " for c in _ESCAPES.sub("", line.rstrip("\r")))
        if _PROGRESS.match(plain):
            self._newest = plain
            if self._live is not None:
                return
        self._write(plain)

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _draw(self) -> RenderableType:
        from rich.console import Group
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        parts = self._newest.split(" | ") if self._newest else ["waiting for its first lines"]
        rows: list[RenderableType] = []
        for part in parts:
            if found := _UPDATES.match(part):
                rows.append(ProgressBar(total=max(1, int(found[2])), completed=int(found[1]), width=40))
            rows.append(Text(part))
        return Panel(Group(*rows), title=Text(self._title), title_align="left", border_style="dim")

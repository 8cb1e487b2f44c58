"""A run as it says it is, and as its replay server holds it, read at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from agentmem.app.reporting.status import SILENT_S, RunStatus, decoded
from agentmem.failures import AgentMemError, ConfigError
from agentmem.replay import Counters, ReplayBuffer


class StoppedError(AgentMemError):
    """The run doesn't go on, so it can't be asked for anything."""

    exit_code = ConfigError.exit_code


@dataclass(frozen=True, slots=True)
class Reading:
    """See the module's docstring."""

    status: RunStatus
    age_s: float
    """Of the status."""
    counters: Counters

    @property
    def stopped(self) -> str:
        """Why the run doesn't go on, in words; empty if it does."""
        if self.status.ended:
            return f"{self.status.ended}, {ago(self.age_s)}"
        if self.age_s > SILENT_S:
            where = f" (process {self.status.pid} on {self.status.host})" if self.status.pid else ""
            return f"its driver{where} has said nothing for {span(self.age_s)}"
        return ""


def read(buffer: ReplayBuffer) -> Reading:
    """Now. Raises StoppedError if no driver ever said anything."""
    report = buffer.reported()
    if report is None:
        raise StoppedError(f"run {buffer.run} has a buffer, but no driver has said anything of it")
    return Reading(decoded(report.said), report.age_s, buffer.counters())


def span(seconds: float) -> str:
    """A time for people: `3 s`, `5 min`, `2.5 h`, `4 days`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def ago(seconds: float) -> str:
    """Likewise, of a moment."""
    return f"{span(seconds)} ago"

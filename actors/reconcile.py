"""From how many members of a role there shall be, and which there are, to what is to be done. Pure.

A dead member is removed, and replaced as long as its role has restarts left. Members beyond the desired
number are stopped, the youngest first. What is being stopped no longer counts; what is being started does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a member is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    """On its own way out; nobody waits for it."""
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Member:
    """A member as reconciliation sees it. Names order by age."""

    name: str
    state: State
    cause: str = ""
    """Why it is dead."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, in this order."""

    remove: tuple[str, ...] = ()
    """Dead."""
    stop: tuple[str, ...] = ()
    start: int = 0
    restarts: int = 0
    """How many of the starts replace the dead: they are counted against the budget."""
    exhausted: str = ""
    """The budget doesn't suffice; the cause of the death that it can't mend."""


def reconcile(desired: int, members: Sequence[Member], *, restarts: int, budget: int) -> Plan:
    """The plan for one role, of which `restarts` were made before."""
    dead = [member for member in members if member.state is State.DEAD]
    living = [member for member in members if member.state in (State.STARTING, State.RUNNING)]
    stop = tuple(member.name for member in living[desired:][::-1])
    start = max(0, desired - len(living))
    replaced = min(start, len(dead))
    return Plan(
        remove=tuple(member.name for member in dead),
        stop=stop,
        start=start,
        restarts=replaced,
        exhausted=dead[-1].cause if replaced > max(0, budget - restarts) else "",
    )

"""Which task comes next: tickets as a pure function of (seed, group number).

The cursor is the number of groups issued so far. A resumed run that knows it issues the same tickets as an
uninterrupted one. Every instance comes once before any comes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec import structs

from agentmem.config import RunConfig
from agentmem.memory.modes import ModeDraw
from agentmem.trajectory import Mode, Task, Ticket


@dataclass(slots=True)
class TaskSchedule:
    """Training tickets of one environment."""

    environment: str
    instances: Sequence[str | int]
    seed: int
    group_size: int
    mode: Mode
    draw: ModeDraw | None = None
    """EMPO²: the mode of each update."""
    branches: Sequence[str] = ()
    """Mem-π: the branch of each member; empty: no trial is advised."""
    groups_per_update: int = 1
    """What an update is, for `draw`."""
    _epoch: int = field(default=-1, init=False)
    _order: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), init=False)

    def instance(self, group: int) -> str | int:
        """The instance of group number `group` (0, 1, …)."""
        epoch, place = divmod(group, len(self.instances))
        if epoch != self._epoch:
            self._order = np.random.default_rng((self.seed, epoch)).permutation(len(self.instances))
            self._epoch = epoch
        return self.instances[int(self._order[place])]

    def mode_of(self, group: int) -> Mode:
        """How the trials of a group are played: all groups of an update alike."""
        if self.draw is None:
            return self.mode
        return structs.replace(self.mode, draw=self.draw.of(group // self.groups_per_update).value)

    def tickets(self, group: int, min_version: int = 0) -> list[Ticket]:
        """The tickets of one group: the same task for every member."""
        name = f"g{group:07d}"
        task = Task(environment=self.environment, instance=self.instance(group), group=name)
        mode = self.mode_of(group)
        return [
            Ticket(
                id=f"{name}-{member}",
                task=task,
                member=member,
                group_size=self.group_size,
                mode=structs.replace(mode, advice=self.branches[member]) if self.branches else mode,
                min_version=min_version,
            )
            for member in range(self.group_size)
        ]


def mode_draw(config: RunConfig) -> ModeDraw | None:
    """How the mode of an update is drawn where there are tips, else None. Off policy with EMPO² alone: a
    frozen agent isn't trained on prompts without them."""
    if not config.tipped:
        return None
    q = config.memory.tips.q if config.method == "empo2" else 0.0
    return ModeDraw(config.seed, p=config.memory.tips.p, q=q)

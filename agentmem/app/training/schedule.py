"""Which task comes next: tickets as a pure function of (seed, group number).

The cursor is the number of groups issued so far. A resumed run that knows it issues the same tickets as an
uninterrupted one. Every instance comes once before any comes again.

A mixture's groups belong to one domain each. The domains take turns by their weights, so that after any
number of groups each has had its share to within one group or so; within a domain the order is that of its
environment alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec import structs

from agentmem.config import RunConfig
from agentmem.evaluation.held_out import by_domain
from agentmem.memory.modes import ModeDraw
from agentmem.trajectory import Mode, Task, Ticket


@dataclass(slots=True)
class _Shuffled:
    """Instances in an order that is drawn anew each time that all have come."""

    instances: Sequence[str | int]
    seed: int
    _epoch: int = field(default=-1, init=False)
    _order: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), init=False)

    def at(self, number: int) -> str | int:
        epoch, place = divmod(number, len(self.instances))
        if epoch != self._epoch:
            self._order = np.random.default_rng((self.seed, epoch)).permutation(len(self.instances))
            self._epoch = epoch
        return self.instances[int(self._order[place])]


class Turns:
    """Whose turn it is: at each turn the name that is furthest behind its share, the first of equals.

    `at` gives the name and how many turns it had before. `weights` are positive.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        total = sum(weights.values())
        self._shares = {name: weight / total for name, weight in weights.items()}
        self._owed = dict.fromkeys(weights, 0.0)
        self._had = dict.fromkeys(weights, 0)
        self._turns: list[tuple[str, int]] = []

    def at(self, number: int) -> tuple[str, int]:
        """Of turn 0, 1, …, in any order of asking."""
        while len(self._turns) <= number:
            for name, share in self._shares.items():
                self._owed[name] += share
            # Rounded, so that equals are equal whatever was added in which order.
            name = max(self._owed, key=lambda each: round(self._owed[each], 9))
            self._turns.append((name, self._had[name]))
            self._owed[name] -= 1
            self._had[name] += 1
        return self._turns[number]


@dataclass(slots=True)
class TaskSchedule:
    """Training tickets of one environment, or of a mixture of several."""

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
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of a mixture's domains; a domain without one counts 1."""
    _pools: dict[str, _Shuffled] = field(init=False)
    _turns: Turns = field(init=False)

    def __post_init__(self) -> None:
        domains = by_domain(self.instances)
        self._pools = {domain: _Shuffled(own, self.seed) for domain, own in domains.items()}
        self._turns = Turns({domain: self.weights.get(domain, 1.0) for domain in domains})

    def instance(self, group: int) -> str | int:
        """The instance of group number `group` (0, 1, …)."""
        domain, number = self._turns.at(group)
        return self._pools[domain].at(number)

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

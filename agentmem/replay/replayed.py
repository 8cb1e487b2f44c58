"""The `replay` table: trained groups, drawn again up to a limit, the fresher the likelier.

Invariants: at most `replay_groups` groups, the oldest leave first, also when producers need their bytes; a
group leaves after `max_samples` draws; draws and inserts stay within `replay_limiter`. Draws don't change the
training counters. A group with a payload that can't be read leaves the table and is counted as corrupt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentmem.replay import lua
from agentmem.replay.groups import GroupTable
from agentmem.replay.structs import Group
from agentmem.replay.table import record_fields

LEAST_PRIORITY = 1e-3
"""Added to every priority, so that a group without an advantage can still be drawn."""


class Uniform(Protocol):
    """A generator of uniform numbers in [0, 1): `random.Random` or `numpy.random.Generator`."""

    def random(self) -> float:
        """The next number."""
        ...


class ReplayTable(GroupTable):
    """Draws from groups that were trained before."""

    def sample_replay(self, n: int, current_version: int, rng: Uniform) -> list[Group]:
        """Up to `n` different groups, drawn by weight: fewer if the table or its limiter has no more.

        A group's weight is `staleness_decay ** age`, age in weight versions, times
        `priority ** advantage_exponent` (groups without a priority count as the mean of the others). Never
        waits. A draw that several learners raced for counts, and is returned, once per `max_samples`.
        """
        if n < 1:
            return []
        s = self.settings
        limit = s.replay_limiter.for_sample()
        may, described = self._run(lua.REPLAY_TABLE, n, *limit)
        chosen = weighted_draw(self._weights(described, current_version), int(may), rng)
        groups = self._load([described[i][:4] for i in chosen], self._damaged)
        if not groups:
            return []
        counted = self._run(lua.REPLAY_DRAWN, s.max_samples, *limit, *[g.id for g in groups])
        return [g for g, counts in zip(groups, counted, strict=True) if counts]

    def set_priorities(self, priorities: Mapping[str, float]) -> int:
        """Tell groups' priorities, e.g. mean |advantage| of the trials in the learner's record.

        A group may be told before or after it is finished. Returns how many of them are still there. Raises
        ValueError for a number that is negative or not finite.
        """
        for gid, priority in priorities.items():
            if not 0 <= priority < math.inf:
                raise ValueError(f"group {gid}: its priority is {priority}: must be finite and >= 0")
        flat = [x for item in priorities.items() for x in item]
        return int(self._run(lua.SET_PRIORITIES, *flat)) if flat else 0

    def _weights(self, described: Sequence[Any], current_version: int) -> list[float]:
        s = self.settings
        weights = [s.staleness_decay ** _age(d[3], current_version) for d in described]
        if s.advantage_exponent:
            known = [float(d[4]) for d in described if d[4] != b""]
            mean = sum(known) / len(known) if known else 1.0
            for i, d in enumerate(described):
                priority = float(d[4]) if d[4] != b"" else mean
                weights[i] *= (priority + LEAST_PRIORITY) ** s.advantage_exponent
        return weights

    def _damaged(self, gid: str, ticket: str, what: str) -> bool:
        self._run(lua.REPLAY_DAMAGED, gid, ticket, what)
        return False


def weighted_draw(weights: Sequence[float], n: int, rng: Uniform) -> list[int]:
    """Up to `n` different indices, drawn one after another in proportion to the weights that are left.

    Efraimidis and Spirakis: the n largest of log(u) / w, u uniform in (0, 1].
    """
    keyed = [(math.log(1 - rng.random()) / w, i) for i, w in enumerate(weights) if w > 0]
    return [i for _, i in sorted(keyed, reverse=True)[:n]]


def _age(flat: Any, current_version: int) -> int:
    versions = [high for _, _, _, high, _ in record_fields(flat) if high is not None]
    return max(0, current_version - max(versions)) if versions else 0

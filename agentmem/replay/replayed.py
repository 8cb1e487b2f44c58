"""The `replay` table: trained groups, drawn again up to a limit, the fresher the likelier.

Invariants: at most `replay_groups` groups, the oldest leave first, also when producers need their bytes; a
group leaves after `max_samples` draws. Draws don't change the training counters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from agentmem.replay import lua
from agentmem.replay.groups import GroupTable
from agentmem.replay.structs import Group
from agentmem.replay.table import record_fields


class Uniform(Protocol):
    """A generator of uniform numbers in [0, 1): `random.Random` or `numpy.random.Generator`."""

    def random(self) -> float:
        """The next number."""
        ...


class ReplayTable(GroupTable):
    """Draws from groups that were trained before."""

    def sample_replay(self, n: int, current_version: int, rng: Uniform) -> list[Group]:
        """Up to `n` different groups, each with weight `staleness_decay ** age`, age in weight versions."""
        described = self._run(lua.REPLAY_TABLE)
        weights = [self.settings.staleness_decay ** _age(d[3], current_version) for d in described]
        chosen = [described[i] for i in weighted_draw(weights, n, rng)]
        groups = self._load(chosen, quarantine=False)
        if groups:
            self._run(lua.REPLAY_DRAWN, self.settings.max_samples, *[g.id for g in groups])
        return groups


def weighted_draw(weights: Sequence[float], n: int, rng: Uniform) -> list[int]:
    """Up to `n` different indices, drawn one after another in proportion to the weights that are left.

    Efraimidis and Spirakis: the n largest of log(u) / w, u uniform in (0, 1].
    """
    keyed = [(math.log(1 - rng.random()) / w, i) for i, w in enumerate(weights) if w > 0]
    return [i for _, i in sorted(keyed, reverse=True)[:n]]


def _age(flat: Any, current_version: int) -> int:
    versions = [high for _, _, _, high, _ in record_fields(flat) if high is not None]
    return max(0, current_version - max(versions)) if versions else 0

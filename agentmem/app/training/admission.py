"""What is played and what is trained: tickets out, complete groups in.

Promises:
- Run-ahead is bounded: at most `(max_staleness + 1) · tasks_per_update` groups are issued and not trained,
  and never more than the updates that are left will use.
- Groups come oldest first. One with a token older than `hard_staleness` updates is dropped, as the last
  resort, and counted as expired; another takes its place. With `max_staleness: 0` that is any token of other
  weights than the present ones.
- `replay.fraction` of an update's groups is drawn from the replay table, as soon as it holds any: an update
  that finds too few there is smaller.
"""

from __future__ import annotations

import asyncio

import numpy as np

from agentmem.app.training.schedule import TaskSchedule
from agentmem.app.training.state import RunState
from agentmem.config import RunConfig
from agentmem.replay import Group, ReplayBuffer

TAKE_BLOCK_S = 0.2


class Admission:
    """See the module's docstring."""

    def __init__(self, config: RunConfig, schedule: TaskSchedule, buffer: ReplayBuffer) -> None:
        self._config, self._schedule, self._buffer = config, schedule, buffer
        self.replayed = replayed_groups(config)
        """Groups of an update that are drawn from the replay table."""
        self.online = config.rollout.tasks_per_update - self.replayed
        """Groups of an update that are trained for the first time."""

    async def issue(self, state: RunState) -> None:
        """Keep the allowed number of groups issued and not trained."""
        config = self._config
        room = (config.replay.max_staleness + 1) * self.online
        counters = await asyncio.to_thread(self._buffer.counters)
        open_groups = counters.groups_open + counters.groups_ready + counters.groups_taken
        left = (config.learner.updates - state.update) * self.online
        count = min(room, left) - open_groups
        if count <= 0:
            return
        tickets = [
            ticket
            for group in range(state.next_group, state.next_group + count)
            for ticket in self._schedule.tickets(group, state.lineage.version)
        ]
        # Tickets that the buffer knows already (the cursor is a checkpoint's) are left alone there.
        await asyncio.to_thread(self._buffer.submit, tickets)
        state.next_group += count

    async def take(self, state: RunState) -> list[Group]:
        """The groups of one update that are trained for the first time; none if they aren't complete yet."""
        limit = self._config.replay.hard_staleness if self._config.replay.max_staleness else 0
        return await asyncio.to_thread(
            self._buffer.take_groups,
            self.online,
            at_least=self.online,
            min_version=state.lineage.oldest(limit),
            block_s=TAKE_BLOCK_S,
        )

    async def draw(self, state: RunState) -> list[Group]:
        """Groups that were trained before, for the same update."""
        if not self.replayed:
            return []
        rng = np.random.default_rng((self._config.seed, state.update))
        return await asyncio.to_thread(self._buffer.sample_replay, self.replayed, state.lineage.version, rng)


def replayed_groups(config: RunConfig) -> int:
    """Of an update. At least one group is always new."""
    wanted = config.rollout.tasks_per_update
    return min(wanted - 1, round(config.replay.fraction * wanted))

"""A learner rank in a process of its own: `LearnerRank` behind Ray, and how it meets the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from learner.settings import RankSettings

if TYPE_CHECKING:
    from agentmem.weights import WeightUpdate
    from agentmem.weights.collective import Wire
    from learner.batching.tensors import Shard
    from learner.rank import Groups, LearnerRank
    from learner.result import Prepared, UpdateResult
    from learner.row import Row
    from learner.rows import Values


class RankActor:
    """Made by `LearnerGroup`. `open` on rank 0, then `start` on all ranks, then the rest."""

    def __init__(self, settings: RankSettings, rank: int, world: int, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self.settings, self._rank, self.world = settings, rank, world
        self._store: Any = None
        self._learner: LearnerRank | None = None

    def open(self) -> tuple[str, int]:
        """Rank 0: start the store that all ranks meet at; its address."""
        from learner.rendezvous import open_store, own_address

        host = own_address() if self.world > 1 else "127.0.0.1"
        self._store = open_store(host, self.world, self.settings.learner.timeout_s)
        return host, int(self._store.port)

    def start(self, host: str, port: int) -> None:
        """Join the group and load the model."""
        from learner.rank import LearnerRank
        from learner.rendezvous import connect_store

        if self._store is None:
            self._store = connect_store(host, port, self.world, self.settings.learner.timeout_s)
        self._learner = LearnerRank(self.settings, self._rank, self.world, self._store)

    @property
    def learner(self) -> LearnerRank:
        """The rank, which must have been started."""
        if self._learner is None:
            raise RuntimeError(f"learner rank {self._rank} was not started")
        return self._learner

    def ping(self) -> None:
        """Answers beside a running call: in the concurrency group `health`."""

    def pid(self) -> int:
        """Process id."""
        return os.getpid()

    def update_groups(
        self, groups: Groups, version: int, replayed: int, examples: Sequence[Row] = ()
    ) -> UpdateResult:
        """A single rank's whole update."""
        return self.learner.update_groups(groups, version, replayed, examples)

    def prepare_values(self, groups: Groups) -> Any:
        """One shard per rank, each a return value of its own."""
        parts = self.learner.prepare_values(groups)
        return tuple(parts) if self.world > 1 else parts[0]

    def values(self, shard: Shard) -> dict[int, float]:
        """Read the value head."""
        return self.learner.values(shard)

    def prepare_rows(self, rows: Sequence[Row]) -> Any:
        """One shard per rank, each a return value of its own."""
        parts = self.learner.prepare_rows(rows)
        return tuple(parts) if self.world > 1 else parts[0]

    def likelihood(self, shard: Shard) -> tuple[float, int]:
        """Log-probs of a shard's tokens."""
        return self.learner.likelihood(shard)

    def shape_values(self, groups: Groups, read: Sequence[dict[int, float]]) -> Values:
        """All ranks' values in the shape of the groups."""
        return self.learner.shape_values(groups, read)

    def prepare_shards(
        self, groups: Groups, values: Values | None, replayed: int, examples: Sequence[Row] = ()
    ) -> tuple[Prepared | Shard, ...]:
        """What was prepared (without shards), then one shard per rank."""
        import dataclasses

        prepared = self.learner.prepare(groups, values, replayed, examples)
        return (dataclasses.replace(prepared, shards=[]), *prepared.shards)

    def update(self, shard: Shard) -> tuple[bool, dict[str, float]]:
        """Train."""
        return self.learner.update(shard)

    def publish(self, version: int, engines: Sequence[str]) -> WeightUpdate | None:
        """Gather, and write on rank 0."""
        return self.learner.outlet.publish(version, engines)

    def manifest(self, version: int, transport: str, location: str) -> WeightUpdate:
        """The announcement of a collective transport."""
        return self.learner.outlet.manifest(version, transport, location)

    def send(self, update: WeightUpdate, open_wire: Callable[[WeightUpdate], Wire]) -> None:
        """Gather, and send on rank 0."""
        self.learner.outlet.send(update, open_wire)

    def acknowledge(self, version: int, engine: str) -> None:
        """An engine serves this version."""
        self.learner.outlet.acknowledge(version, engine)

    def save_checkpoint(self, root: str, step: int, extra: dict[str, Any]) -> str:
        """Save this rank's part."""
        return self.learner.save_checkpoint(root, step, extra)

    def load_checkpoint(self, folder: str) -> dict[str, Any]:
        """Load this rank's part."""
        return self.learner.load_checkpoint(folder)

    def final_model(self, folder: str) -> None:
        """Write the model folder on rank 0."""
        self.learner.final_model(folder)

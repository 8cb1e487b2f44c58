"""Stage 1's examples beside Stage 2's trials: the unified single stage of Mem-π, an ablation.

Each update gets `advice.distil_batch` records of the bank that `advice.stage1.bank` names, in an order that
depends on the seed alone: a resumed run goes on with the records that would have been next. The bank is the
one that Stage 1 would learn, under the same guard, its held-out part left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.app.training.stage1 import bank_of, encoded
from agentmem.config import RunConfig
from agentmem.memory.bank.pictures import bank_pictures

if TYPE_CHECKING:
    from learner.row import Row


class BankFeed:
    """The rows of each update."""

    def __init__(self, rows: Sequence[Row], batch: int, seed: int) -> None:
        self._rows, self._batch, self._seed = rows, batch, seed

    @classmethod
    def of(cls, config: RunConfig, model: Path) -> BankFeed | None:
        """A run's; None if its updates learn no records. Raises ConfigError for a bank that can't be used.
        `model`: the memory policy's directory, whose tokenizer encodes."""
        if not config.advised or config.advice.distil_coef == 0:
            return None
        learnt, _ = bank_of(config)
        pictures = bank_pictures(Path(config.advice.stage1.bank or ""))
        return cls(encoded(config, model, learnt, pictures), config.advice.distil_batch, config.seed)

    def rows(self, update: int) -> list[Row]:
        """Of the update that makes number `update` + 1 of all."""
        from learner.stage1 import batch_of

        records = len(self._rows)
        chosen = batch_of(update, records=records, batch=min(self._batch, records), seed=self._seed)
        return [self._rows[i] for i in chosen]

"""Mem-π: a memory policy learns when to give a hint, and what (advice_rows.py, advice_loss.py).

Its decision tokens are those of the model's own directory; a model without them is refused at start. The KL
term holds it to the model that it started from: the Stage 1 model, whatever was trained and resumed since.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from agentmem.chat.decision import DecisionTokens
from agentmem.config.advice import AdviceConfig
from agentmem.trajectory import Trial
from learner.advice_loss import BINS, SUMS, advice_share
from learner.advice_rows import advice_rows
from learner.batching.tensors import MiniBatch
from learner.loss import DeviceBatch
from learner.row import Part, Row, RowBatch
from learner.rows import Values
from learner.settings import RankSettings


class AdviceMethod:
    """See `learner.method.Method`."""

    sums = SUMS

    def __init__(self, settings: RankSettings) -> None:
        self._settings = settings
        self._advice = settings.advice or AdviceConfig()
        self._tokens = DecisionTokens.of(settings.model)
        self.kl_coef = self._advice.kl_coef

    def rows(
        self,
        trials: Sequence[Sequence[Trial]],
        *,
        values: Values | None = None,
        replayed: int = 0,
        examples: Sequence[Row] = (),
    ) -> RowBatch:
        """The rows of advice turns, then the examples."""
        batch = advice_rows(
            trials, self._advice, self._tokens, policy=self._settings.policy, replayed=replayed
        )
        if not examples:
            return batch
        # An example is no trial: it gets a number that no trial has.
        first = batch.stats.trials
        told = [dataclasses.replace(row, trial=first + i) for i, row in enumerate(examples)]
        stats = dataclasses.replace(
            batch.stats,
            rows=batch.stats.rows + len(told),
            trained_tokens=batch.stats.trained_tokens + sum(row.trained for row in told),
        )
        return dataclasses.replace(batch, rows=[*batch.rows, *told], stats=stats)

    def needs_old(self, batch: DeviceBatch) -> bool:
        """No engine reports a decision's."""
        if self._settings.objective.old == "recompute":
            return True
        return bool((batch.part == Part.DECISION).any())

    def share(
        self, logits: Tensor, values: Tensor, batch: DeviceBatch, mini: MiniBatch
    ) -> tuple[Tensor, Tensor]:
        """`advice_share`."""
        return advice_share(logits, batch, mini, self._settings.objective, self._advice, self._tokens)

    def metrics(self, total: Mapping[str, float], steps: int) -> dict[str, float]:
        """Losses by part; and of the decisions as they were met: how many would generate at inference, and
        how p(generate) is distributed (`p_generate_0` is the share below 0.1)."""
        found = {
            "decision_loss": total["decision_loss"] / steps,
            "content_loss": total["content_loss"] / steps,
            "tokens_trained": total["tokens"] + total["examples"],
        }
        if total["examples"] > 0:
            found["example_loss"] = total["example_loss"] / steps
        decisions = total["decisions"]
        if decisions > 0:
            found["generate_share"] = total["generates"] / decisions
            found["p_generate"] = total["p_generate"] / decisions
            bins = (f"p_generate_{number}" for number in range(BINS))
            found.update({name: total[name] / decisions for name in bins})
        return found

    def state(self) -> dict[str, Any]:
        """Nothing but weights."""
        return {}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Nothing but weights."""

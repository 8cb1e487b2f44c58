"""What a method puts into the learner: rows from trials, a loss from logits, numbers for reports.

`LearnerRank` (model, DeepSpeed, checkpoints, weights) and `UpdateRun` (the order of an update) are the same
for all methods. Each method is a file of its own that has what `Method` asks for; `method_of` chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from agentmem.trajectory import Trial
    from learner.batching.tensors import MiniBatch
    from learner.loss import DeviceBatch
    from learner.row import Row, RowBatch
    from learner.rows import Values
    from learner.settings import RankSettings


class Method(Protocol):
    """One per rank. `rows` is called on rank 0 alone, `state` and `restore` on every rank."""

    @property
    def kl_coef(self) -> float:
        """Weight of the KL to the model of the start; 0: that model needn't be kept."""

    @property
    def sums(self) -> tuple[str, ...]:
        """Names of what `share` adds up. Those that `UpdateRun.metrics` reads are among them."""

    def rows(
        self,
        trials: Sequence[Sequence[Trial]],
        *,
        values: Values | None = None,
        replayed: int = 0,
        examples: Sequence[Row] = (),
    ) -> RowBatch:
        """The rows of an update, from groups of trials. `examples` are trained beside them (Mem-π)."""

    def needs_old(self, batch: DeviceBatch) -> bool:
        """Whether a micro-batch that isn't the first step's needs the old log-probs of a forward pass."""

    def share(
        self, logits: Tensor, values: Tensor, batch: DeviceBatch, mini: MiniBatch
    ) -> tuple[Tensor, Tensor]:
        """The loss of a micro-batch as its share of the mini-batch's, and the sums of `sums`, float64."""

    def metrics(self, total: Mapping[str, float], steps: int) -> dict[str, float]:
        """The method's own metrics from the sums of `steps` applied steps over all ranks."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint has to hold of it."""

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what a checkpoint holds (other things are in it, too)."""


def method_of(settings: RankSettings, rank: int) -> Method:
    """The method that these settings ask for, as rank `rank` needs it."""
    if settings.advice is not None:
        from learner.advice_method import AdviceMethod

        return AdviceMethod(settings)
    from learner.agent_method import AgentMethod

    return AgentMethod(settings, rank)

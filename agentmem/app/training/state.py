"""Where a run stands: what a checkpoint holds beside the learner's own, and what a restart goes back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentmem.app.training.lineage import Lineage


@dataclass(slots=True)
class RunState:
    """Of the driver. All zero at the start of a run, whose first checkpoint is its initial model."""

    update: int = 0
    """Updates done."""
    lineage: Lineage = field(default_factory=Lineage)
    next_group: int = 0
    """The task cursor: groups issued."""
    consumed: int = 0
    """The buffer's consumption cursor."""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> RunState:
        """From what `stored` returned; from nothing: the start of a run."""
        return cls(
            update=int(stored.get("update", 0)),
            lineage=Lineage.of(int(stored.get("version", 0)), stored.get("jumps", ())),
            next_group=int(stored.get("next_group", 0)),
            consumed=int(stored.get("consumed", 0)),
        )

    def stored(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "update": self.update,
            "next_group": self.next_group,
            "consumed": self.consumed,
            **self.lineage.stored(),
        }

"""What is examined: a configuration, the machines that it would run on, and the models that it names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentmem.app.doctor.finding import Unseen
from agentmem.app.doctor.node import NodeFacts
from agentmem.config import RunConfig


@dataclass(slots=True)
class Patient:
    """Checks read it; those that come first fill it in for later ones."""

    config: RunConfig
    recipe: str
    """As it was named on the command line."""
    address: str = ""
    """Of a Ray cluster that is up; empty: a local one would be started."""
    making: bool = False
    """Models that a run would make are made now, so that later checks see them; the run finds them there."""
    include: tuple[Path, ...] = ()
    """What `submit` would upload besides."""
    models: dict[str, Path] = field(default_factory=dict)
    """By policy, as far as they are here."""
    nodes: list[NodeFacts] = field(default_factory=list)
    """Of every machine that was asked; the first is this one."""
    resources: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What each node of a live cluster has, by Ray's names; empty: none was asked."""
    clocks: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Of each node: seconds ahead of this machine, and how far that may be wrong."""

    def model(self, policy: str) -> Path:
        """The directory of a policy's model. Raises Unseen if there is none yet."""
        if policy not in self.models:
            raise Unseen(f"policy '{policy}' has no model here yet")
        return self.models[policy]

    def served(self) -> tuple[str, ...]:
        """The policies with models of their own. Raises Unseen if there are none."""
        names = ("memory",) if self.config.method == "mempi-stage1" else self.config.served
        if not names:
            raise Unseen("no policy of this run has a model of its own")
        return names

    @property
    def alone(self) -> bool:
        """The run would be on this machine alone."""
        return not (self.address or os.environ.get("RAY_ADDRESS"))

"""How many parts of a kind a run has while it runs: by whom that is changed, and within which bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator

from agentmem.config.advice import Refuse
from agentmem.config.section import Count, Fraction, NonNegative, Positive, Section

if TYPE_CHECKING:
    from agentmem.config.schema import RunConfig


class BoundsConfig(Section):
    """Within which the autoscaler keeps a kind of part. Both ends belong to it."""

    least: Count = 1
    most: Count = 1

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.most < self.least:
            raise ValueError(f"most is {self.most}: must be at least least ({self.least})")
        return self


class AutoscaleConfig(Section):
    """The autoscaler (see `actors/autoscaler.py`). A kind without bounds is left alone."""

    env_workers: BoundsConfig | None = None
    agents: BoundsConfig | None = None
    generators: BoundsConfig | None = None
    engines: dict[str, BoundsConfig] = Field(default={})
    """By policy, as `engines`."""
    every_s: Positive = 5.0
    """Between two looks."""
    high: Positive = 0.9
    """Load of a kind (work against capacity) above which it grows ..."""
    low: Annotated[float, Field(ge=0)] = 0.35
    """... below which it shrinks ..."""
    target: Positive = 0.7
    """... and which a change aims at."""
    patience_up: Count = 2
    """Looks in a row with too high a load before a kind grows ..."""
    patience_down: Count = 12
    """... with too low a load before it shrinks ..."""
    pause: NonNegative = 6
    """... and looks after a change in which nothing is changed: its effect is awaited."""
    learner_wait: Fraction = 0.1
    """Share of its time that the learner must wait for groups before anything grows: rollout that is ahead of
    the learner only makes trials stale."""
    ticket_wait_s: Positive = 30.0
    """A queue of tickets that would be empty after so long is full load for agents."""
    advice_wait_s: Positive = 2.0
    """Answers of generators that take so long on average are full load."""

    @model_validator(mode="after")
    def _steady(self) -> Self:
        if self.low > self.target / 2 or self.target >= self.high:
            raise ValueError(
                f"target is {self.target:g}: must be below high ({self.high:g}) and at least twice low "
                f"({self.low:g}), or a part would be added and removed for ever"
            )
        return self


class ScalingConfig(Section):
    """Changes of the numbers of parts while the run goes on: `agentmem scale`, and the autoscaler."""

    drain_s: Positive = 120.0
    """How long a part that leaves may finish its trials. What isn't finished goes on elsewhere."""
    groups: bool = False
    """Parts also ask for the custom resource of their kind (`env_worker`, `agent`, `generator`, `engine`,
    `learner`, and `engine_<policy>` for other policies), so that they go to the nodes that offer it, and a
    cluster's autoscaler adds nodes of the right group. The manifests of `agentmem deploy render` do."""
    machine_wait_s: Annotated[float, Field(ge=0)] = 0.0
    """How long to wait for machines that the cluster's autoscaler adds. 0: it has none, and what it lacks is
    an error at once."""
    autoscale: AutoscaleConfig | None = None
    """None: numbers change by `agentmem scale` alone."""


def check(config: RunConfig, refuse: Refuse) -> None:
    """Refuse bounds for what the run doesn't have."""
    rules = config.scaling.autoscale
    if rules is None:
        return
    if rules.env_workers is not None and config.env.placement == "local":
        refuse("scaling.autoscale.env_workers", rules.env_workers, "env.placement 'local' has no workers")
    if rules.generators is not None and not config.advised:
        refuse("scaling.autoscale.generators", rules.generators, "no memory policy advises this run's agents")
    for policy in rules.engines:
        if policy not in config.served:
            refuse(
                f"scaling.autoscale.engines.{policy}",
                policy,
                f"engines of this run serve {', '.join(config.served) or 'no policy'}",
            )

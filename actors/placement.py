"""What is asked of a cluster, compared with what it has, before anything is started.

Ray lets an actor that can't be placed wait for ever without a word; `require` fails at once and names what
lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentmem.failures import ResourceError


@dataclass(frozen=True, slots=True)
class Request:
    """`count` equal parts, each with so much of everything. `what` is the setting that asks for them."""

    what: str
    count: int = 1
    cpus: float = 0.0
    gpus: float = 0.0
    custom: Mapping[str, float] = field(default_factory=dict)

    def needs(self) -> dict[str, float]:
        """All parts together, by Ray's names."""
        each = {"CPU": self.cpus, "GPU": self.gpus, **self.custom}
        return {name: self.count * amount for name, amount in each.items() if amount > 0}


def lacking(requests: Sequence[Request], has: Mapping[str, float]) -> list[str]:
    """A line for each resource of which the cluster has too little. Pure."""
    lines = []
    for name in dict.fromkeys(name for request in requests for name in request.needs()):
        parts = [(r.what, r.count, r.needs()[name]) for r in requests if name in r.needs()]
        asked, there = sum(amount for _, _, amount in parts), has.get(name, 0.0)
        if asked > there + 1e-9:
            by = ", ".join(f"{what} ({count}) {amount:g}" for what, count, amount in parts)
            lines.append(f"{asked:g} {name} asked for by {by}, the cluster has {there:g}")
    return lines


def require(requests: Sequence[Request], *, has: Mapping[str, float] | None = None) -> None:
    """Raise ResourceError unless the cluster (`has`, else Ray's) has all that is asked for."""
    if has is None:
        import ray

        has = ray.cluster_resources()
    lines = lacking(requests, has)
    if lines:
        raise ResourceError("not enough resources: " + "; ".join(lines))

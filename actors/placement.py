"""What is asked of a cluster, compared with what it has, before anything is started.

Ray lets an actor that can't be placed wait for ever without a word. `require` fails at once and names what
lacks in the whole cluster; `find_room` also waits, saying so: shortly for what others have but may give back,
and longer for machines, where the cluster has an autoscaler (which it tells what is wanted in all).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agentmem.failures import ResourceError

FREE_S = 20.0
"""What parts that have just ended may take to give their resources back."""
LOOK_S = 0.25


@dataclass(frozen=True, slots=True)
class Request:
    """`count` equal parts, each with so much of everything. `what` is the setting that asks for them."""

    what: str
    count: int = 1
    cpus: float = 0.0
    gpus: float = 0.0
    custom: Mapping[str, float] = field(default_factory=dict)

    def each(self) -> dict[str, float]:
        """What one part asks for, by Ray's names."""
        asked = {"CPU": self.cpus, "GPU": self.gpus, **self.custom}
        return {name: amount for name, amount in asked.items() if amount > 0}

    def needs(self) -> dict[str, float]:
        """All parts together, by Ray's names."""
        return {name: self.count * amount for name, amount in self.each().items()}


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


def unplaced(requests: Sequence[Request], nodes: Sequence[Mapping[str, float]]) -> list[str]:
    """A line for each request of which some parts find no node with all that one asks for free. Pure.

    The largest parts are placed first, each on the first node that holds it.
    """
    left = [dict(node) for node in nodes]
    lines = []
    for request in sorted(requests, key=lambda r: -sum(r.each().values())):
        each, placed = request.each(), 0
        if not each:
            continue  # it has room anywhere
        for _ in range(request.count):
            fits = (n for n in left if all(n.get(name, 0.0) >= a - 1e-9 for name, a in each.items()))
            node = next(fits, None)
            if node is None:
                break
            for name, amount in each.items():
                node[name] -= amount
            placed += 1
        if placed < request.count:
            asks = ", ".join(f"{amount:g} {name}" for name, amount in each.items())
            free = [f"{sum(n.get(name, 0.0) for n in nodes):g} {name}" for name in each]
            lines.append(
                f"{request.what}: room for {placed} of {request.count} (each asks for {asks}); free are "
                f"{', '.join(free)} on {len(nodes)} node{'s' if len(nodes) != 1 else ''}"
            )
    return lines


def require(requests: Sequence[Request], *, has: Mapping[str, float] | None = None) -> None:
    """Raise ResourceError unless the cluster (`has`, else Ray's) has all that is asked for."""
    if has is None:
        import ray

        has = ray.cluster_resources()
    lines = lacking(requests, has)
    if lines:
        raise ResourceError("not enough resources: " + "; ".join(lines))


def find_room(
    new: Sequence[Request],
    in_all: Sequence[Request],
    *,
    machine_wait_s: float,
    say: Callable[[str], None],
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Return when the parts of `new` can be placed, which make `in_all` with those that are there.

    Raises ResourceError naming who asks for what, and what there is. With `machine_wait_s` the cluster has an
    autoscaler: it is told of `in_all`, and waited for so long. `say` is told what is waited for, when that
    changes; what `pause` raises is raised.
    """
    import ray

    if machine_wait_s > 0:
        ask_autoscaler(in_all)
    began, said = time.monotonic(), ""
    while True:
        waited = time.monotonic() - began
        lines = lacking(in_all, ray.cluster_resources())
        if machine_wait_s > 0:
            # What is there but taken, Ray's own queue tells the autoscaler as soon as actors ask for it.
            if not lines:
                return
            if waited > machine_wait_s:
                raise ResourceError(
                    f"no machines within {machine_wait_s:g} s (scaling.machine_wait_s): {'; '.join(lines)}"
                )
            text = "waiting for machines: " + "; ".join(lines)
        else:
            if lines:
                raise ResourceError("not enough resources: " + "; ".join(lines))
            lines = unplaced(new, free_by_node())
            if not lines:
                return
            if waited > FREE_S:
                raise ResourceError("no room: " + "; ".join(lines))
            text = "waiting for room: " + "; ".join(lines)
        if text != said:
            say(text)
            said = text
        pause(LOOK_S)


def ask_autoscaler(in_all: Sequence[Request]) -> None:
    """Tell the cluster's autoscaler what the whole run wants: it adds nodes for it, and gives back others."""
    from ray.autoscaler.sdk import request_resources

    request_resources(bundles=[request.each() for request in in_all for _ in range(request.count)])


def free_by_node() -> list[dict[str, float]]:
    """What is free on each node of Ray's cluster."""
    from ray._private.state import available_resources_per_node

    return [dict(free) for free in available_resources_per_node().values()]

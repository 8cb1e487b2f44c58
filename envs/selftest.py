"""What `agentmem envs list` and `agentmem envs check NAME` find out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envs.base import Instance, View
from envs.domains import domain_of
from envs.registry import ENVIRONMENTS, check, instances, make

HOSTILE = (
    "",
    "x" * 100_000,
    "\x00\x1b[31m\x7f",
    "'; DROP TABLE users; --",
    "</script><script>alert(1)</script>",
)
"""Actions that no environment may fall over."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One promise of the contract, and whether it was kept."""

    good: bool
    what: str


def overview() -> list[str]:
    """A line for each environment, and below it one for each thing that it lacks."""
    width = max(map(len, ENVIRONMENTS))
    lines = []
    for name, spec in ENVIRONMENTS.items():
        missing = check(name)
        lines.append(f"{name:<{width}}  {'missing' if missing else 'ready':<8}  {spec.summary}")
        lines += [f"{'':<{width}}  {'':<8}    {line.removeprefix(f'{name}: ')}" for line in missing]
    return lines


def selftest(name: str, options: Mapping[str, Any], instance: Instance | None = None) -> list[Finding]:
    """Play one instance (the first of `eval`) and report which promises held. Any exception passes through.

    The environment's packages must be installed in the Python that runs this.
    """
    chosen = instances(name, options, "eval")[0] if instance is None else instance
    env = make(name, options)
    found = []
    try:
        at = time.perf_counter()
        first, info = env.reset(options={"instance": chosen})
        took = time.perf_counter() - at
        fresh = info.get("success") is False and info.get("invalid") is False
        found.append(Finding(fresh, f"reset of instance {chosen!r} in {took:.3f} s: {len(first)} characters"))
        prompt = env.style.of(domain_of(chosen)).act_prompt(
            View(first, instruction=info.get("instruction", ""))
        )
        found.append(Finding(bool(prompt), "its situation becomes a prompt"))
        harmless = 0
        for action in HOSTILE:
            observation, reward, over, cut, after = env.step(action)
            kept = isinstance(observation, str) and isinstance(reward, float) and not after["success"]
            harmless += kept
            if over or cut:
                env.restart()
        found.append(
            Finding(harmless == len(HOSTILE), f"{harmless} of {len(HOSTILE)} hostile actions did no harm")
        )
        found.append(Finding(env.restart()[0] == first, "restart shows the identical start"))
        same = env.reset(options={"instance": chosen})[0] == first
        found.append(Finding(same, "reset shows the identical start"))
    finally:
        env.close()
    env.close()
    found.append(Finding(True, "closed, twice"))
    return found

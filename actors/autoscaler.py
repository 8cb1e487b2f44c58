"""From how busy each kind of part is to how many of it there shall be. Pure: no clock, no Ray.

`loads` turns one look at the run into a load for each kind: work against capacity, 1.0 being full. `decide`
takes the load of one kind, what it remembers of earlier looks, and answers with a number.

Promises of `decide`:
- The number is within the bounds, always.
- Nothing flaps: work that stays the same leads to one number, in steps of one direction, and then to no
  change. (Growth aims at `target`, and lands above `low` since `low <= target / 2`; shrinking lands at
  `target` or below, which is under `high`.)
- More load never leads to fewer parts, all else alike.
- A kind grows only while the learner waits for groups; it never grows beyond double, nor shrinks below half,
  in one step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from actors.parts import AGENTS, ENGINES, ENV_WORKERS, GENERATORS
from agentmem.config.scaling import AutoscaleConfig, BoundsConfig


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """The engines of one policy, all together."""

    requests: float = 0
    """Under way and in line."""
    places: float = 0
    """Requests that they can work on in one step."""
    queued: float = 0
    """Those in line."""
    cache: float = 0.0
    """Share of the KV cache in use, of the fullest."""


@dataclass(frozen=True, slots=True)
class Signals:
    """One look at a run."""

    env_busy: float = 0
    env_waiting: float = 0
    """Trials in line for a place in an env worker."""
    env_slots: float = 0
    trials: float = 0
    """In flight at agents."""
    trial_places: float = 0
    queued: float = 0
    """Tickets that no agent has claimed."""
    trials_per_s: float = 0.0
    """Finished lately."""
    advice_wait_s: float | None = None
    """Mean time to an answer of generators lately; None: none was asked."""
    engines: Mapping[str, EngineLoad] = field(default_factory=dict)
    learner_wait: float = 1.0
    """Share of its time for which the learner waits for groups."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What a kind remembers between two looks."""

    high: int = 0
    """Looks in a row with too high a load."""
    low: int = 0
    pause: int = 0
    """Looks to come in which nothing changes."""


def loads(signals: Signals, rules: AutoscaleConfig) -> dict[str, float]:
    """The load of each kind that can be told; a kind without capacity or without a question has none."""
    s, found = signals, {}
    if s.env_slots:
        found[ENV_WORKERS] = (s.env_busy + s.env_waiting) / s.env_slots
    if s.trial_places:
        # Little's law: so long does a ticket wait. All places taken and a long queue is more than full.
        wait = s.queued / s.trials_per_s if s.trials_per_s > 0 else (math.inf if s.queued else 0.0)
        share = s.trials / s.trial_places
        found[AGENTS] = share * (1 + min(wait / rules.ticket_wait_s, 1.0))
    if s.advice_wait_s is not None:
        found[GENERATORS] = s.advice_wait_s / rules.advice_wait_s
    for policy, engine in s.engines.items():
        if engine.places:
            found[ENGINES + policy] = max(engine.requests / engine.places, engine.cache)
    return found


def bounds_of(rules: AutoscaleConfig) -> dict[str, BoundsConfig]:
    """The kinds that the autoscaler looks after."""
    kinds = {ENV_WORKERS: rules.env_workers, AGENTS: rules.agents, GENERATORS: rules.generators}
    kinds |= {ENGINES + policy: bounds for policy, bounds in rules.engines.items()}
    return {kind: bounds for kind, bounds in kinds.items() if bounds is not None}


def decide(
    size: int,
    load: float | None,
    memory: Memory,
    rules: AutoscaleConfig,
    bounds: BoundsConfig,
    *,
    learner_wait: float = 1.0,
) -> tuple[int, Memory]:
    """How many there shall be of a kind of which `size` are desired now, and what to remember."""
    within = min(max(size, bounds.least), bounds.most)
    if within != size:
        return within, Memory(pause=rules.pause)
    if memory.pause:
        return size, Memory(pause=memory.pause - 1)
    if load is None:
        return size, Memory()
    if load > rules.high and learner_wait >= rules.learner_wait:
        seen = Memory(high=memory.high + 1)
        wanted = min(math.ceil(min(size * load / rules.target, 2 * size)), bounds.most)
        return _changed(size, max(size, wanted), seen, seen.high >= rules.patience_up, rules)
    if load < rules.low:
        seen = Memory(low=memory.low + 1)
        wanted = max(math.ceil(size * load / rules.target), math.ceil(size / 2), bounds.least)
        return _changed(size, min(size, wanted), seen, seen.low >= rules.patience_down, rules)
    return size, Memory()


def _changed(
    size: int, wanted: int, seen: Memory, patient: bool, rules: AutoscaleConfig
) -> tuple[int, Memory]:
    if not patient or wanted == size:
        return size, seen
    return wanted, Memory(pause=rules.pause)

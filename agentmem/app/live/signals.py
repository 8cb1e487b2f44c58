"""From what parts answer when they are asked to what the autoscaler looks at.

Gauges (places, queues) are means of all polls since the last `take`, rates are of the time between the two.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from actors.autoscaler import EngineLoad, Signals
from agentmem.app.live.exports import policy_of
from agentmem.replay import Counters

if TYPE_CHECKING:
    from actors.engine.protocol import EngineStats
    from actors.rollout.advising import AdvisingStats
    from actors.rollout.agent_stats import AgentStats
    from actors.rollout.env_service import ServiceStats

MOST = 600
"""Polls that are kept where nobody takes them."""


class SignalMeter:
    """`add` what a poll saw, `take` what is to be looked at."""

    def __init__(self) -> None:
        self._polls: deque[dict[str, float]] = deque(maxlen=MOST)
        self._engines: deque[dict[str, EngineLoad]] = deque(maxlen=MOST)
        self._trials: float = 0
        self._advice: tuple[float, float] = (0.0, 0.0)
        self._taken = time.monotonic()
        self._trials_taken: float = 0
        self._advice_taken: tuple[float, float] = (0.0, 0.0)

    def add(
        self,
        counters: Counters,
        agents: Sequence[AgentStats],
        workers: Sequence[ServiceStats],
        engines: Sequence[EngineStats],
        *,
        trials: int,
        advised: Sequence[AdvisingStats] = (),
    ) -> None:
        """A poll. `trials`: finished since the start; `advised`: of all generators that ever answered."""
        self._polls.append(
            {
                "env_busy": sum(w.busy for w in workers),
                "env_waiting": sum(w.waiting for w in workers),
                "env_slots": sum(w.slots for w in workers),
                "trials": sum(a.in_flight for a in agents),
                "trial_places": sum(a.limit for a in agents),
                "queued": counters.queued + counters.eval_queued,
            }
        )
        self._engines.append(engine_loads(engines))
        self._trials = trials
        self._advice = sum(a.wait_s for a in advised), sum(a.requests for a in advised)

    def take(self, learner_wait: float) -> Signals:
        """Since the last time. `learner_wait`: share of its time for which the learner waits for groups."""
        polls, engines = list(self._polls), list(self._engines)
        self._polls.clear()
        self._engines.clear()
        now = time.monotonic()
        span, self._taken = max(now - self._taken, 1e-9), now
        finished, self._trials_taken = self._trials - self._trials_taken, self._trials
        waited, asked = (a - b for a, b in zip(self._advice, self._advice_taken, strict=True))
        self._advice_taken = self._advice
        if not polls:
            return Signals(learner_wait=learner_wait)
        mean = {name: sum(poll[name] for poll in polls) / len(polls) for name in polls[0]}
        return Signals(
            env_busy=mean["env_busy"],
            env_waiting=mean["env_waiting"],
            env_slots=mean["env_slots"],
            trials=mean["trials"],
            trial_places=mean["trial_places"],
            queued=mean["queued"],
            trials_per_s=max(finished, 0) / span,
            advice_wait_s=waited / asked if asked > 0 else None,
            engines={policy: _mean([e[policy] for e in engines if policy in e]) for policy in engines[-1]},
            learner_wait=learner_wait,
        )


def engine_loads(engines: Sequence[EngineStats]) -> dict[str, EngineLoad]:
    """By policy."""
    found: dict[str, EngineLoad] = {}
    for stats in engines:
        policy = policy_of(stats.name)
        before = found.get(policy, EngineLoad())
        found[policy] = EngineLoad(
            requests=before.requests + stats.in_flight,
            queued=before.queued + stats.queued,
            places=before.places + stats.places,
            cache=max(before.cache, stats.cache_share),
        )
    return found


def _mean(seen: Sequence[EngineLoad]) -> EngineLoad:
    return EngineLoad(
        requests=sum(e.requests for e in seen) / len(seen),
        queued=sum(e.queued for e in seen) / len(seen),
        places=sum(e.places for e in seen) / len(seen),
        cache=max(e.cache for e in seen),
    )

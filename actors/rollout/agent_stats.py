"""What an agent counts: trials when they end, episodes with their turns when they are finished."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import msgspec

from agentmem.memory.advisor import advice_of
from agentmem.trajectory import Episode, Turn

LAG_EVERY_S = 0.1


class AgentStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counters since the start, and gauges."""

    name: str
    trials: int = 0
    """Committed."""
    duplicates: int = 0
    """Committed by another agent before; dropped."""
    failed: int = 0
    """Attempts that failed by infrastructure, and were given back for a retry."""
    data_failures: int = 0
    """Attempts that failed for good: look at `last_failure` and the dead letters."""
    lost: int = 0
    """Attempts given up because the lease was gone."""
    resumed: int = 0
    """Trials taken over behind episodes that another attempt had finished."""
    last_failure: str = ""
    episodes: int = 0
    turns: int = 0
    invalid: int = 0
    reflections: int = 0
    prompt_tokens: int = 0
    response_tokens: int = 0
    memory_dropped: int = 0
    """Pieces of memory left out of prompts, so that these fit."""
    tips: dict[str, int] = {}
    """What became of tips, by name (`TipCounts`)."""
    tips_pending: int = 0
    """Tips that are being written."""
    advice: dict[str, int] = {}
    """Advice turns of trials, by what they were: generate, abstain, late; and `tokens`, those of the memory
    policy."""
    stops: dict[str, int] = {}
    """Episodes by stop reason."""
    in_flight: int = 0
    limit: int = 0
    idle_share: float = 0.0
    """Share of the places for trials that were empty, over the time since the start."""
    loop_lag_s: float = 0.0
    """Longest delay of the event loop since the stats were last asked for."""
    unwritten: int = 0
    """Finished trials and episodes on their way to the buffer."""
    blocked_s: float = 0.0
    """How long the present write to the buffer has been under way (long: the buffer is full)."""
    cpu_s: float = 0.0
    """CPU seconds of this process."""


class Tally:
    """The counters while they grow."""

    def __init__(self, name: str, limit: int) -> None:
        self.name, self.limit = name, limit
        self.trials = self.duplicates = self.failed = self.data_failures = self.lost = self.resumed = 0
        self.last_failure = ""
        self._episodes = self._turns = self._invalid = self._reflections = 0
        self._prompt_tokens = self._response_tokens = self._memory_dropped = 0
        self._advice: Counter[str] = Counter()
        self._stops: Counter[str] = Counter()
        self._since = self._changed = time.monotonic()
        self._in_flight = 0
        self._idle = 0.0
        self._lag = 0.0

    def episode(self, episode: Episode) -> None:
        """A finished episode."""
        self._episodes += 1
        self._stops[episode.stop.value] += 1
        for turn in episode.turns:
            self._turn(turn)

    def reflection(self, turn: Turn) -> None:
        """A written reflection."""
        self._reflections += 1
        self._turn(turn)

    def advice(self, turn: Turn) -> None:
        """What a memory policy said to a trial; its tokens aren't the agent's."""
        said = advice_of(turn)
        self._advice["late" if said.late else said.decision.value] += 1
        self._advice["tokens"] += len(turn.response_ids or ()) - turn.forced

    def _turn(self, turn: Turn) -> None:
        self._turns += 1
        self._invalid += turn.invalid
        self._memory_dropped += turn.memory_dropped
        self._prompt_tokens += len(turn.prompt_ids)
        self._response_tokens += len(turn.response_ids or ())

    def in_flight(self, count: int) -> None:
        """The number of trials in flight has changed."""
        now = time.monotonic()
        self._idle += (self.limit - self._in_flight) * (now - self._changed)
        self._changed, self._in_flight = now, count

    async def watch_lag(self) -> None:
        """Measure for ever by how much the event loop is late."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LAG_EVERY_S
            await asyncio.sleep(LAG_EVERY_S)
            self._lag = max(self._lag, loop.time() - due)

    def stats(self, *, unwritten: int, blocked_s: float) -> AgentStats:
        """As they stand."""
        self.in_flight(self._in_flight)
        lag, self._lag = self._lag, 0.0
        span = max(self._changed - self._since, 1e-9)
        return AgentStats(
            name=self.name,
            trials=self.trials,
            duplicates=self.duplicates,
            failed=self.failed,
            data_failures=self.data_failures,
            lost=self.lost,
            resumed=self.resumed,
            last_failure=self.last_failure,
            episodes=self._episodes,
            turns=self._turns,
            invalid=self._invalid,
            reflections=self._reflections,
            prompt_tokens=self._prompt_tokens,
            response_tokens=self._response_tokens,
            memory_dropped=self._memory_dropped,
            advice=dict(self._advice),
            stops=dict(self._stops),
            in_flight=self._in_flight,
            limit=self.limit,
            idle_share=self._idle / (self.limit * span),
            loop_lag_s=lag,
            unwritten=unwritten,
            blocked_s=blocked_s,
            cpu_s=time.process_time(),
        )

"""What a driver says of its run once a second, for `agentmem status` and `agentmem scale` on any machine.

It goes through the replay server as JSON. A field that a reader doesn't know is passed over, one that the
driver didn't say has its default, so that versions that differ a little understand each other.
"""

from __future__ import annotations

import msgspec

from agentmem.failures import ReplayError

SILENT_S = 20.0
"""A driver that has said nothing for so long is gone, or frozen."""


class KindStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of part: `agents`, `engines.agent`, …"""

    running: int = 0
    desired: int = 0
    leaving: int = 0
    wished: int | None = None
    """By `agentmem scale`; None: nobody wished."""
    load: float | None = None
    """Work against capacity."""
    changing: bool = False
    note: str = ""
    """What a change waits for, or why it came to nothing."""
    refused: bool = False

    @property
    def reached(self) -> bool:
        """All that shall be there is, and nothing else."""
        return not self.changing and self.running == self.desired and not self.leaving


class EngineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The engines of one policy."""

    requests: int = 0
    queued: int = 0
    places: int = 0
    cache_share: float = 0.0


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """See the module's docstring. Rates are of the last seconds."""

    run: str
    recipe: str = ""
    host: str = ""
    pid: int = 0
    phase: str = ""
    ended: str = ""
    """How the run came to its end; empty while it goes on."""
    evaluating: bool = False
    update: int = 0
    updates: int = 0
    since_update_s: float | None = None
    version: int | None = None
    """Weight version of the learner."""
    served: int | None = None
    """Oldest version that an engine serves."""
    staleness_mean: float | None = None
    staleness_max: int | None = None
    p_at_k: list[float] = []
    reward: float | None = None
    trials_per_s: float = 0.0
    episodes_per_s: float = 0.0
    turns_per_s: float = 0.0
    sampled_tokens_per_s: float = 0.0
    learner_idle: float | None = None
    rollout_idle: float | None = None
    kinds: dict[str, KindStatus] = {}
    sequence: int = 0
    """Of the wishes that the driver has seen."""
    restarts: dict[str, int] = {}
    restart_budget: int = 0
    slots: dict[str, int] = {}
    """Places for environments in workers: busy, free; and trials waiting for one."""
    in_flight: int = 0
    engines: dict[str, EngineStatus] = {}
    byte_budget: int = 0
    metrics: str = ""
    """Where the driver serves its metrics."""


def encoded(status: RunStatus) -> bytes:
    """As it is sent."""
    return msgspec.json.encode(status)


def decoded(said: bytes) -> RunStatus:
    """As it is read. Raises ReplayError for what no driver of ours says."""
    try:
        return msgspec.json.decode(said, type=RunStatus)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ReplayError(f"what the run says of itself can't be read: {error}") from error

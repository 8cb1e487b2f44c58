"""The replay buffer between the agents that play and the learner that trains.

The only package that imports redis, and it does so when a buffer is opened, not before.
"""

from agentmem.replay.binary import find_server
from agentmem.replay.buffer import ReplayBuffer
from agentmem.replay.embedded import EmbeddedServer
from agentmem.replay.limiter import Limiter
from agentmem.replay.structs import (
    Claim,
    CommitResult,
    Counters,
    DeadLetter,
    EvalStatus,
    FailResult,
    Group,
    Outcome,
    Progress,
    RejectedError,
    TipStats,
)
from agentmem.replay.table import Settings
from agentmem.replay.tips import TipLog
from agentmem.replay.wishes import Report, Wishes

__all__ = [
    "Claim",
    "CommitResult",
    "Counters",
    "DeadLetter",
    "EmbeddedServer",
    "EvalStatus",
    "FailResult",
    "Group",
    "Limiter",
    "Outcome",
    "Progress",
    "RejectedError",
    "ReplayBuffer",
    "Report",
    "Settings",
    "TipLog",
    "TipStats",
    "Wishes",
    "find_server",
]

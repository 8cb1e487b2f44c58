"""The data model: Task, Ticket, Trial, Episode, Turn. One wire schema, checked at construction."""

from agentmem.trajectory.codec import SCHEMA_VERSION, SchemaError, decode_trial, encode_trial
from agentmem.trajectory.structs import (
    Episode,
    Mode,
    Split,
    StopReason,
    Task,
    Ticket,
    Trial,
    Turn,
    TurnKind,
    domain_of,
)

__all__ = [
    "SCHEMA_VERSION",
    "Episode",
    "Mode",
    "SchemaError",
    "Split",
    "StopReason",
    "Task",
    "Ticket",
    "Trial",
    "Turn",
    "TurnKind",
    "decode_trial",
    "domain_of",
    "encode_trial",
]

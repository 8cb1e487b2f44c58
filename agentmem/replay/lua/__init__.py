"""The buffer's Lua scripts, one per state change; each is atomic, so a crash falls between two of them.

Every script gets the run's key prefix as KEYS[1] and touches keys with that prefix alone (one cluster slot).
The key layout is described in `agentmem.replay.keys`.
"""

from agentmem.replay.lua.groups import (
    FINISH,
    QUARANTINE,
    RENEW_GROUPS,
    RETURN,
    REWIND,
    SETTLE,
    TAKE,
)
from agentmem.replay.lua.reading import COUNTERS, DROP_EVAL, OPEN, QUARANTINE_EVAL, SET_CURSOR
from agentmem.replay.lua.replayed import REPLAY_DAMAGED, REPLAY_DRAWN, REPLAY_TABLE, SET_PRIORITIES
from agentmem.replay.lua.tickets import (
    CLAIM,
    COMMIT,
    FAIL,
    FORFEIT,
    NOTE_BLOCKED,
    PROGRESS,
    RECALL,
    RELEASE,
    RENEW,
    SUBMIT,
)
from agentmem.replay.lua.tips import ADD_TIPS, DROP_TIPS, READ_TIPS
from agentmem.replay.lua.wishes import CONFIGURED, REPORT, REPORTED, WISH

__all__ = [
    "ADD_TIPS",
    "CLAIM",
    "COMMIT",
    "CONFIGURED",
    "COUNTERS",
    "DROP_EVAL",
    "DROP_TIPS",
    "FAIL",
    "FINISH",
    "FORFEIT",
    "NOTE_BLOCKED",
    "OPEN",
    "PROGRESS",
    "QUARANTINE",
    "QUARANTINE_EVAL",
    "READ_TIPS",
    "RECALL",
    "RELEASE",
    "RENEW",
    "RENEW_GROUPS",
    "REPLAY_DAMAGED",
    "REPLAY_DRAWN",
    "REPLAY_TABLE",
    "REPORT",
    "REPORTED",
    "RETURN",
    "REWIND",
    "SETTLE",
    "SET_CURSOR",
    "SET_PRIORITIES",
    "SUBMIT",
    "TAKE",
    "WISH",
]

"""A summary of a run's buffer for people."""

from __future__ import annotations

from typing import Any

import msgspec

from agentmem.replay.buffer import ReplayBuffer


def summary(buffer: ReplayBuffer, dead: int = 10) -> dict[str, Any]:
    """Counters, cursors, tips, who holds leases, the oldest ready groups, and the newest dead letters."""
    client, call, keys = buffer.server.client, buffer.server.call, buffer.keys
    counters = buffer.counters()
    leases: dict[str, int] = {}
    for stream in ("train", "again", "eval"):
        for row in buffer.server.command("XPENDING", keys(stream), "agents")["consumers"]:
            name = row["name"].decode()
            leases[name] = leases.get(name, 0) + int(row["pending"])
    cursors = call(lambda: client.hgetall(keys("cursors")))
    memory = call(lambda: client.info("memory"))
    return {
        "run": buffer.run,
        "url": buffer.server.shown,
        "counters": msgspec.to_builtins(counters),
        "identity_holds": counters.identity_holds,
        "byte_budget": buffer.settings.byte_budget,
        "used_memory": int(memory["used_memory"]),
        "cursors": {k.decode(): v.decode() for k, v in cursors.items()},
        "tips": {name: msgspec.to_builtins(buffer.tip_stats(name)) for name in buffer.tip_namespaces()},
        "leases": dict(sorted(leases.items())),
        "oldest_ready": [g.decode() for g in call(lambda: client.zrange(keys("ready"), 0, 9))],
        "draining": buffer.draining(),
        "dead_letters": [msgspec.to_builtins(letter) for letter in buffer.dead_letters(dead)],
    }

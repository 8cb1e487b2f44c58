"""What one small trial costs from submit to finish, and what compression does to real ones."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentmem.replay import EmbeddedServer, Progress, ReplayBuffer
from agentmem.replay.codec import Codec
from agentmem.trajectory import Episode, Mode, StopReason, Task, Ticket, Trial, Turn, TurnKind


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def played(ticket: Ticket, episodes: int = 3, turns: int = 3) -> Trial:
    """A trial of the quickstart's size: one sampled token a turn, prompts of 40 to 110 tokens."""

    def turn(k: int, t: int) -> Turn:
        prompt = tuple((7 * i + 13 * k + t) % 60 for i in range(40 + 25 * k + 5 * t))
        return Turn(
            kind=TurnKind.ACT,
            policy="agent",
            prompt_ids=prompt,
            response_ids=((5 * k + t) % 60,),
            logprobs=(-0.1 * (t + 1) - 0.01234567 * k,),
            versions=(3,),
            observation="..1?\n?2??\n1???\n????",
            response=f"({k},{t})",
            actions=(f"({k},{t})",),
            reward=0.0,
        )

    return Trial(
        ticket=ticket.id,
        task=ticket.task,
        member=ticket.member,
        group_size=ticket.group_size,
        mode=Mode(episodes=episodes, memory="history"),
        wall_s=0.4,
        episodes=tuple(
            Episode(
                index=k,
                initial_observation="..??\n?2??\n1???\n????",
                turns=tuple(turn(k, t) for t in range(turns)),
                stop=StopReason.FAILURE,
                reward=0.0,
                summary="hit a mine at (2,3)",
            )
            for k in range(episodes)
        ),
    )


def trials_table(server: EmbeddedServer, n: int, batch: int) -> list[dict[str, Any]]:
    """CPU microseconds per trial of each step, client and server, in batches."""
    with ReplayBuffer(server.url, f"trials{batch}") as buffer:
        tickets = [
            Ticket(
                id=f"{g}-{m}", task=Task(environment="m", instance=g, group=str(g)), member=m, group_size=8
            )
            for g in range(n // 8)
            for m in range(8)
        ]
        parts = [tickets[i : i + batch] for i in range(0, len(tickets), batch)]
        trials = {t.id: played(t) for t in tickets}
        rows = []

        def measure(what: str, work: Callable[[], Any]) -> Any:
            mine, theirs = time.process_time(), cpu_of(server.pid)
            result = work()
            client, host = time.process_time() - mine, cpu_of(server.pid) - theirs
            row = {"what": what, "batch": batch, "client_us": 1e6 * client / n, "server_us": 1e6 * host / n}
            rows.append(row)
            return result

        measure("submit", lambda: [buffer.submit(p) for p in parts])
        claims = [
            c for part in measure("claim", lambda: [buffer.claim("w", batch) for _ in parts]) for c in part
        ]
        for k in range(2):
            items = [Progress(claim=c, episode=trials[c.ticket.id].episodes[k]) for c in claims]
            measure(
                f"save episode {k}",
                lambda items=items: [buffer.save_progress(items[i : i + batch]) for i in range(0, n, batch)],
            )
        pairs = [(c, trials[c.ticket.id]) for c in claims]
        measure("commit", lambda: [buffer.commit(pairs[i : i + batch]) for i in range(0, n, batch)])
        size = buffer.counters().bytes / n

        def learn() -> None:
            while groups := buffer.take_groups(16):
                buffer.finish_groups([g.id for g in groups], "trained")

        measure("take and finish", learn)
        assert buffer.counters().trained == n
        rows.append(
            {
                "what": "all",
                "batch": batch,
                "client_us": sum(r["client_us"] for r in rows),
                "server_us": sum(r["server_us"] for r in rows),
                "payload_bytes": round(size),
            }
        )
    return rows


def compression_table(trials: list[Trial], source: str) -> list[dict[str, Any]]:
    """Bytes and microseconds per trial at several zstd levels."""
    rows = []
    for level in (0, 1, 3):
        codec = Codec(level)
        packed = [codec.pack(t) for t in trials]
        repeats = max(1, 2000 // len(trials))
        started = time.process_time()
        for _ in range(repeats):
            for trial in trials:
                codec.pack(trial)
        half = time.process_time()
        for _ in range(repeats):
            for payload in packed:
                codec.unpack(payload, Trial)
        end = time.process_time()
        n = repeats * len(trials)
        rows.append(
            {
                "trials": source,
                "count": len(trials),
                "zstd_level": level,
                "bytes_per_trial": round(sum(map(len, packed)) / len(packed)),
                "pack_us": round(1e6 * (half - started) / n, 1),
                "unpack_us": round(1e6 * (end - half) / n, 1),
            }
        )
    return rows


def real_trials() -> tuple[list[Trial], str]:
    """The recorded trials of the newest MineSweeper run here; if there is none, made-up ones of that size."""
    from agentmem.app.reporting.examples import load_examples
    from agentmem.app.reporting.rundir import runs_base

    for path in sorted(runs_base().glob("*minesweeper*/examples.msgpack"), reverse=True):
        if trials := [example.trial for example in load_examples(path)]:
            return trials, "recorded MineSweeper trials"
    ticket = Ticket(id="t", task=Task(environment="minesweeper", instance=1), member=0)
    return [played(ticket)] * 40, "made-up trials of the quickstart's size (no run was recorded here)"

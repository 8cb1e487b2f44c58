"""How fast the replay buffer is, next to the bare server that it stands on, in one run.

    python benchmarks/replay.py [--repeats 5] [--out benchmarks/results/replay.json]

Two tables. *Bytes*: trials with an incompressible payload (stored as they are) inserted by `commit` and
sampled by `take_groups` + `finish_groups`, against plain SET and GET of the same size written straight to a
socket of the same server (the limit; same append-only file), alternating, the best of all repeats of each.
*Trials*: what one small three-episode trial costs from submit to finish in CPU time of client and server,
at the default compression.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import resource
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentmem.replay import EmbeddedServer, Progress, ReplayBuffer
from agentmem.trajectory import Episode, Mode, StopReason, Task, Ticket, Trial, Turn, TurnKind

SIZES = {1 << 10: 64, 1 << 16: 16, 1 << 20: 1}
"""Payload bytes -> how many are sent at once (about a megabyte at most)."""
IN_BUFFER_BYTES = 64 << 20


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bare:
    """Plain pipelined SET and GET over one socket: the least that a client can do."""

    def __init__(self, url: str) -> None:
        password, _, path = url.removeprefix("unix://:").partition("@")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.socket.sendall(self.command(b"AUTH", password.encode()))
        self.socket.recv(100)
        self.room = memoryview(bytearray(4 << 20))

    @staticmethod
    def command(*words: bytes) -> bytes:
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)

    def exchange(self, data: bytes, reply_bytes: int) -> None:
        self.socket.sendall(data)
        while reply_bytes > 0:
            reply_bytes -= self.socket.recv_into(self.room)

    def run(self, size: int, batch: int, rounds: int) -> tuple[float, float]:
        """(SETs per second, GETs per second)."""
        payload = os.urandom(size)
        sets = [
            b"".join(self.command(b"SET", b"bare:%d" % (r * batch + i), payload) for i in range(batch))
            for r in range(rounds)
        ]
        gets = [
            b"".join(self.command(b"GET", b"bare:%d" % (r * batch + i)) for i in range(batch))
            for r in range(rounds)
        ]
        reply = len(b"$%d\r\n" % size) + size + 2
        started = time.perf_counter()
        for data in sets:
            self.exchange(data, 5 * batch)
        half = time.perf_counter()
        for data in gets:
            self.exchange(data, reply * batch)
        end = time.perf_counter()
        keys = [b"bare:%d" % i for i in range(rounds * batch)]
        self.socket.sendall(self.command(b"UNLINK", *keys))
        self.socket.recv(100)
        return rounds * batch / (half - started), rounds * batch / (end - half)


def make_trial(ticket: Ticket, text: str) -> Trial:
    turn = Turn(kind=TurnKind.ACT, policy="agent", response=text)
    episode = Episode(index=0, initial_observation="", turns=(turn,), stop=StopReason.FAILURE, reward=0.0)
    return Trial(
        ticket=ticket.id, task=ticket.task, member=0, group_size=1, mode=ticket.mode, episodes=(episode,)
    )


def ours(buffer: ReplayBuffer, size: int, batch: int, rounds: int, serial: int) -> tuple[float, float]:
    """(commits per second, trials taken and finished per second). Submitting and claiming isn't timed."""
    text = base64.b64encode(os.urandom(size))[: size - 150].decode()
    tickets = [
        Ticket(id=f"{serial}-{size}-{i}", task=Task(environment="b", instance=i), member=0)
        for i in range(batch * rounds)
    ]
    buffer.submit(tickets)
    claims = buffer.claim("w", len(tickets))
    trials = [(c, make_trial(c.ticket, text)) for c in claims]
    started = time.perf_counter()
    for r in range(rounds):
        buffer.commit(trials[r * batch : (r + 1) * batch])
    half = time.perf_counter()
    taken = 0
    while taken < len(tickets):
        groups = buffer.take_groups(batch)
        taken += len(groups)
        buffer.finish_groups([g.id for g in groups], "trained")
    end = time.perf_counter()
    return len(tickets) / (half - started), len(tickets) / (end - half)


def bytes_table(server: EmbeddedServer, repeats: int) -> list[dict[str, Any]]:
    rows = []
    bare = Bare(server.url)
    with ReplayBuffer(server.url, "bytes", compression=0) as buffer:
        for size, batch in SIZES.items():
            rounds = max(1, min(IN_BUFFER_BYTES // (size * batch), 100))
            samples: dict[str, list[float]] = {"insert": [], "sample": [], "set": [], "get": []}
            for n in range(repeats):
                for names, values in (
                    (("set", "get"), bare.run(size, batch, rounds)),
                    (("insert", "sample"), ours(buffer, size, batch, rounds, n)),
                ):
                    for name, value in zip(names, values, strict=True):
                        samples[name].append(value)
            for what, limit in (("insert", "set"), ("sample", "get")):
                mine, theirs = max(samples[what]), max(samples[limit])  # others' load only ever slows
                rows.append(
                    {
                        "payload_bytes": size,
                        "producers": 1,
                        "what": what,
                        "ours_per_s": round(mine),
                        "limit_per_s": round(theirs),
                        "ratio": round(mine / theirs, 3),
                        "ours_mb_per_s": round(mine * size / 1e6),
                    }
                )
    return rows


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with EmbeddedServer() as server:
        small = [row for batch in (4, 16, 64) for row in trials_table(server, options.trials, batch)]
        table = bytes_table(server, options.repeats)
    for row in small:
        print(
            f"batch {row['batch']:3d}  {row['what']:16s} client {row['client_us']:7.1f} us/trial   "
            f"server {row['server_us']:7.1f} us/trial"
        )
    for row in table:
        print(
            f"{row['payload_bytes']:8d} B  {row['what']:6s}  ours {row['ours_per_s']:7d}/s "
            f"({row['ours_mb_per_s']} MB/s)  bare server {row['limit_per_s']:7d}/s  ratio {row['ratio']:.2f}"
        )
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB")
    if options.out:
        options.out.write_text(json.dumps({"bytes": table, "trials": small}, indent=1) + "\n")


if __name__ == "__main__":
    main()

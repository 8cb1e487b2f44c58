"""How fast the replay buffer is, next to the bare server that it stands on and to simpler ways, in one run.

    python -m benchmarks.replay [--quick] [--out benchmarks/results/replay.json]

*rates*: trials with an incompressible payload (stored as they are, level 0), in groups of 8, inserted by
`commit` from 1 to 16 processes and sampled by `take_groups` + `finish_groups` from one (as by one learner),
against (a) the limit: `redis-benchmark`'s plain pipelined SET with as many connections and GET with one, over
as many bytes; (b) the stream of pickles: XADD, and XREAD with COUNT 1, a trial a call, by as many processes
through redis-py with hiredis; (c) `ray.util.queue`, one producer. All on servers of their own with the same
append-only file, A and B alternating, the best repeat of each (others' load only ever slows). Bytes are those
of the payload on the wire.

Then: the same with compression on; what durability costs; what a small trial costs from submit to finish;
what compression does to real trials; and 100,000 trials through the buffer with every process's memory.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import redis

from agentmem.replay import EmbeddedServer, ReplayBuffer, find_server
from benchmarks import replay_load as load
from benchmarks.replay_peers import limit, limit_client, ray_queue
from benchmarks.replay_trials import compression_table, real_trials, trials_table

SIZES = [1 << 10, 1 << 16, 1 << 20]
PRODUCERS = [1, 2, 4, 8, 16]
CELL_BYTES = {1 << 10: 4 << 20, 1 << 16: 64 << 20, 1 << 20: 128 << 20}
"""Bytes that go through one measurement."""
BUDGET = 16 << 20


def ours(
    size: int, processes: int, n: int, compression: int = 0, append_only: bool = True
) -> tuple[float, float]:
    """(inserts per second, samples per second) on a server of its own."""
    with EmbeddedServer(append_only=append_only) as server:
        load.submit(server.url, "bench", 2 * n)
        options = {"size": size, "compression": compression}
        with ReplayBuffer(server.url, "bench") as buffer:
            for done in (n, 2 * n):  # the first round brings the server's memory in
                inserted = load.rate(load.insert_ours, server.url, processes, n, **options)
                stored = buffer.counters().bytes / n
                assert compression or 0.98 * size < stored < 1.02 * size, stored
                sampled = load.rate(load.sample_ours, server.url, 1, n, **options)
                assert buffer.counters().trained == done
    return inserted, sampled


def the_limit(size: int, processes: int, n: int) -> tuple[float, float]:
    with EmbeddedServer() as server:
        return limit(server.url, size, processes, n)


def pattern(size: int, processes: int, n: int) -> tuple[float, float]:
    with EmbeddedServer() as server:
        load.rate(load.insert_pattern, server.url, processes, n, size=size)
        with redis.Redis.from_url(server.url) as client:
            client.delete("stream")
        inserted = load.rate(load.insert_pattern, server.url, processes, n, size=size)
        return inserted, load.rate(load.sample_pattern, server.url, 1, n, size=size)


def rates(sizes: list[int], producers: list[int], repeats: int) -> list[dict[str, Any]]:
    rows = []
    for size in sizes:
        for processes in producers:
            n = max(CELL_BYTES[size] // size, processes * load.GROUP) // (processes * load.GROUP)
            n *= processes * load.GROUP
            best = {"ours": (0.0, 0.0), "limit": (0.0, 0.0), "pattern": (0.0, 0.0)}
            for _ in range(repeats):
                for name, measure in (("limit", the_limit), ("ours", ours), ("pattern", pattern)):
                    found = measure(size, processes, n)
                    best[name] = max(best[name][0], found[0]), max(best[name][1], found[1])
            for i, what in enumerate(("insert", "sample")):
                mine, most, simple = (best[name][i] for name in ("ours", "limit", "pattern"))
                row = {
                    "payload_bytes": size,
                    "producers": processes,
                    "what": what,
                    "ours_per_s": round(mine),
                    "limit_per_s": round(most),
                    "pattern_per_s": round(simple),
                    "ratio": round(mine / most, 3),
                    "pattern_ratio": round(mine / simple, 2),
                    "ours_mb_per_s": round(mine * size / 1e6),
                    "limit_mb_per_s": round(most * size / 1e6),
                    "repeats": repeats,
                }
                print(
                    f"{size:8d} B x{processes:<2d} {what}  ours {row['ours_per_s']:6d}/s "
                    f"({row['ours_mb_per_s']} MB/s)  limit {row['limit_per_s']:7d}/s"
                    f"  ratio {row['ratio']:.2f}  pickles {row['pattern_per_s']:6d}/s"
                    f" ({row['pattern_ratio']:.1f}x)",
                    flush=True,
                )
                rows.append(row)
    return rows


def durability(repeats: int) -> list[dict[str, Any]]:
    """The append-only file as we run it (written before the answer, synced each second) against none."""
    rows = []
    for size in SIZES[:2]:
        n = CELL_BYTES[size] // size
        best = {True: (0.0, 0.0), False: (0.0, 0.0)}
        for _ in range(repeats):
            for on in (True, False):
                found = ours(size, 1, n, append_only=on)
                best[on] = max(best[on][0], found[0]), max(best[on][1], found[1])
        for i, what in enumerate(("insert", "sample")):
            with_file, without = best[True][i], best[False][i]
            row = {"payload_bytes": size, "what": what, "append_only_per_s": round(with_file)}
            rows.append(row | {"memory_only_per_s": round(without), "ratio": round(with_file / without, 3)})
    return rows


def rss_kib(pid: int) -> int:
    fields = Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()
    return int(fields[0]) if fields else 0


def slope(points: list[tuple[float, float]]) -> float:
    """Least squares."""
    mx, my = (sum(p[i] for p in points) / len(points) for i in (0, 1))
    return sum((x - mx) * (y - my) for x, y in points) / (sum((x - mx) ** 2 for x, _ in points) or 1.0)


def soak(trials: int) -> dict[str, Any]:
    """Small trials through the buffer: two producers, one learner; the driver keeps 400 tickets queued."""
    settings = msgspec.msgpack.encode({"byte_budget": BUDGET})
    samples: dict[str, list[tuple[float, float]]] = {}
    peak_budget = peak_memory = 0
    started = time.monotonic()
    with EmbeddedServer() as server, ReplayBuffer(server.url, "soak", byte_budget=BUDGET) as buffer:
        processes = {f"producer {n}": load.start(load.soak_producer, server.url, settings, n) for n in (0, 1)}
        processes["learner"] = load.start(load.soak_learner, server.url, settings, trials)
        pids = {"driver": os.getpid(), "server": server.pid} | {k: p.pid for k, p in processes.items()}
        offered, told = 0, 0.0
        while processes["learner"].is_alive():
            counters = buffer.counters()
            if counters.queued < 400 and offered < trials:
                part = range(offered, min(trials, offered + 800))
                buffer.submit([load.ticket(i) for i in part])
                offered = part.stop
            memory = buffer.server.client.info("memory")["used_memory"]
            peak_budget, peak_memory = max(peak_budget, counters.buffer_bytes), max(peak_memory, memory)
            if time.monotonic() - told > 0.5:
                told = time.monotonic()
                for name, pid in pids.items():
                    samples.setdefault(name, []).append((counters.trained, rss_kib(pid)))
                samples.setdefault("server used_memory", []).append((counters.trained, memory / 1024))
            time.sleep(0.02)
        for process in processes.values():
            process.join(30)
        counters = buffer.counters()
        assert counters.trained == trials, counters
        assert counters.identity_holds
    steady = {k: [p for p in v if p[0] > trials / 5] for k, v in samples.items()}
    return {
        "trials": trials,
        "seconds": round(time.monotonic() - started, 1),
        "trials_per_s": round(trials / (time.monotonic() - started)),
        "byte_budget": BUDGET,
        "peak_buffer_bytes": peak_budget,
        "peak_used_memory": peak_memory,
        "rss_kib": {k: {"first": v[0][1], "last": v[-1][1]} for k, v in steady.items() if v},
        "slope_bytes_per_trial": {k: round(1024 * slope(v), 2) for k, v in steady.items() if len(v) > 2},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="64 KB, 1 and 4 producers: a minute")
    parser.add_argument("--repeats", type=int, help="of each measurement (default 3; quick: 1)")
    parser.add_argument("--producers", type=int, nargs="+", help="how many at once (default 1 2 4 8 16)")
    parser.add_argument("--soak", type=int, help="trials that go through (default 100,000; quick: 5,000)")
    parser.add_argument("--out", type=Path)
    o = parser.parse_args()
    repeats = o.repeats or (1 if o.quick else 3)
    result: dict[str, Any] = {
        "server": find_server().name,
        "limit_by": limit_client(),
        "cpus": os.cpu_count(),
    }
    print(f"limit by {result['limit_by']}; every server with an append-only file, synced each second")

    def keep(name: str, value: Any) -> None:
        result[name] = value
        if o.out:  # what was measured is kept if the rest is interrupted
            o.out.parent.mkdir(parents=True, exist_ok=True)
            o.out.write_text(json.dumps(result, indent=1) + "\n")

    producers = o.producers or ([1, 4] if o.quick else PRODUCERS)
    keep("rows", rates(SIZES[1:2] if o.quick else SIZES, producers, repeats))
    packed = ours(1 << 16, 1, 1024, compression=1)
    keep(
        "compressed",
        {"payload_bytes": 1 << 16, "insert_per_s": round(packed[0]), "sample_per_s": round(packed[1])},
    )
    print(f"64 KB of base64 at zstd level 1: insert {packed[0]:.0f}/s, sample {packed[1]:.0f}/s")
    keep("compression", compression_table(*real_trials()))
    for row in result["compression"]:
        print(
            f"{row['trials']}, zstd level {row['zstd_level']}: {row['bytes_per_trial']} B a trial, "
            f"pack {row['pack_us']} us, unpack {row['unpack_us']} us"
        )
    keep("durability", durability(repeats))
    for row in result["durability"]:
        print(
            f"{row['payload_bytes']:8d} B {row['what']}: {row['ratio']:.2f} with the append-only file of "
            "without"
        )
    with EmbeddedServer() as server:
        keep("trials", [r for b in (4, 16, 64) for r in trials_table(server, 800 if o.quick else 4000, b)])
    for row in result["trials"]:
        print(
            f"batch {row['batch']:3d}  {row['what']:16s} client {row['client_us']:7.1f} us/trial   "
            f"server {row['server_us']:7.1f} us/trial"
        )
    keep("soak", soak(o.soak or (5_000 if o.quick else 100_000)))
    print(json.dumps(result["soak"], indent=1))
    if not o.quick:
        queue = ray_queue(SIZES, 300)
        for row in result["rows"]:
            if row["producers"] == 1:
                row["ray_queue_per_s"] = round(queue[row["payload_bytes"]][row["what"] == "sample"])
                print(f"{row['payload_bytes']:8d} B {row['what']}: ray.util.queue {row['ray_queue_per_s']}/s")
        keep("rows", result["rows"])


if __name__ == "__main__":
    main()

"""What the buffer is compared with: the bare server (the limit), and `ray.util.queue`."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import time
from typing import Any

from benchmarks.replay_load import incompressible

PIPELINE_BYTES = 1 << 20


def limit_client() -> str:
    """Which client measures the limit."""
    return "redis-benchmark" if shutil.which("redis-benchmark") else "redis-py, plain pipelined SET and GET"


def limit(url: str, size: int, connections: int, n: int) -> tuple[float, float]:
    """(SETs per second, GETs per second by one connection) of plain values that are there already.

    Pipelined, a megabyte at most on the way. `n` keys, so as many bytes as the buffer holds.
    """
    depth = max(1, min(64, PIPELINE_BYTES // size))
    if shutil.which("redis-benchmark") is None:
        return _by_redis_py(url, size, depth, n)
    password, _, path = url.removeprefix("unix://:").partition("@")
    _fill(url, size, depth, n)  # redis-benchmark draws its keys at random: none may be missing

    def run(test: str, clients: int) -> float:
        words = ["redis-benchmark", "-s", path, "-t", test, "-d", str(size), "-P", str(depth), "-n", str(n)]
        words += ["-c", str(clients), "-r", str(n), "--csv", "-a", password]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
        return float(next(csv.DictReader(io.StringIO(done.stdout)))["rps"])

    return run("set", connections), run("get", 1)


def _fill(url: str, size: int, depth: int, n: int) -> None:
    import redis

    client, value = redis.Redis.from_url(url), os.urandom(size)
    for first in range(0, n, depth):
        pipe = client.pipeline(transaction=False)
        for i in range(first, min(first + depth, n)):
            pipe.set(f"key:{i:012d}", value)
        pipe.execute()
    client.close()


def _by_redis_py(url: str, size: int, depth: int, n: int) -> tuple[float, float]:
    import redis

    client, value = redis.Redis.from_url(url), os.urandom(size)
    keys = max(1, min(500, n))
    times = [time.monotonic()]
    for command in ("set", "get"):
        for first in range(0, n, depth):
            pipe = client.pipeline(transaction=False)
            for i in range(first, min(first + depth, n)):
                pipe.set(f"k{i % keys}", value) if command == "set" else pipe.get(f"k{i % keys}")
            pipe.execute()
        times.append(time.monotonic())
    return n / (times[1] - times[0]), n / (times[2] - times[1])


def ray_queue(sizes: list[int], n: int) -> dict[int, tuple[float, float]]:
    """Size -> (puts per second, gets per second) of one producer and one consumer, an item a call."""
    import logging

    import ray
    from ray.util.queue import Queue

    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level=logging.ERROR)
    out: dict[int, tuple[float, float]] = {}
    try:
        for size in sizes:
            queue: Any = Queue()
            item = incompressible(size).encode()
            queue.put(item)
            queue.get()
            started = time.monotonic()
            for _ in range(n):
                queue.put(item)
            half = time.monotonic()
            for _ in range(n):
                queue.get()
            out[size] = n / (half - started), n / (time.monotonic() - half)
            queue.shutdown()
    finally:
        ray.shutdown()
    return out

"""Producers and samplers as processes, all started at once; what each system does is a function over a part.

A job is (module function, url, its part's number, options); it prepares untimed, waits at the barrier, works,
and returns (started, ended) of its work. A cell's rate is all items over the time from the first start to the
last end.
"""

from __future__ import annotations

import base64
import multiprocessing
import os
import pickle
import time
from collections.abc import Callable
from typing import Any

import msgspec

from agentmem.replay import ReplayBuffer
from agentmem.replay.codec import Codec
from agentmem.trajectory import Episode, StopReason, Task, Ticket, Trial, Turn, TurnKind

GROUP = 8
"""Trials of a group."""
INSERT_BYTES, SAMPLE_BYTES = 1 << 20, 4 << 20
"""About so much goes into one commit, and into one take_groups."""
_context = multiprocessing.get_context("fork")
"""A process is there at once; nothing of its parent is used in it."""

Job = Callable[[str, int, int, dict[str, Any], Callable[[], Any]], tuple[float, float]]


def incompressible(size: int) -> str:
    """Random text that makes a stored trial of about `size` bytes."""
    rest = len(Codec(0).pack(make_trial(ticket(0), "")))
    return base64.b64encode(os.urandom(size))[: size - rest].decode()


def make_trial(of: Ticket, text: str) -> Trial:
    turn = Turn(kind=TurnKind.ACT, policy="agent", response=text)
    episode = Episode(index=0, initial_observation="", turns=(turn,), stop=StopReason.FAILURE, reward=0.0)
    return Trial(
        ticket=of.id,
        task=of.task,
        member=of.member,
        group_size=of.group_size,
        mode=of.mode,
        episodes=(episode,),
    )


def at_once(size: int, total: int, most: int) -> int:
    return max(1, min(total // size, most))


def ticket(i: int) -> Ticket:
    """The i-th ticket of a run."""
    group = str(i // GROUP)
    task = Task(environment="b", instance=i // GROUP, group=group)
    return Ticket(id=f"{group}-{i % GROUP}", task=task, member=i % GROUP, group_size=GROUP)


def submit(url: str, run: str, n: int, **settings: Any) -> None:
    """The first `n` tickets."""
    with ReplayBuffer(url, run, **settings) as buffer:
        buffer.submit([ticket(i) for i in range(n)])


def insert_ours(
    url: str, part: int, n: int, o: dict[str, Any], ready: Callable[[], Any]
) -> tuple[float, float]:
    batch = at_once(o["size"], INSERT_BYTES, 64)
    with ReplayBuffer(url, "bench", compression=o["compression"]) as buffer:
        text = incompressible(o["size"])
        pairs = [(c, make_trial(c.ticket, text)) for c in buffer.claim(f"w{part}", n)]
        assert len(pairs) == n
        ready()
        started = time.monotonic()
        for i in range(0, n, batch):
            buffer.commit(pairs[i : i + batch])
        return started, time.monotonic()


def sample_ours(
    url: str, part: int, n: int, o: dict[str, Any], ready: Callable[[], Any]
) -> tuple[float, float]:
    groups_at_once = at_once(o["size"] * GROUP, SAMPLE_BYTES, 16)
    with ReplayBuffer(url, "bench", compression=o["compression"]) as buffer:
        ready()
        started, ended = time.monotonic(), 0.0
        while groups := buffer.take_groups(groups_at_once, consumer=f"l{part}"):
            buffer.finish_groups([g.id for g in groups], "trained")
            ended = time.monotonic()
        return started, ended or started


def insert_pattern(
    url: str, part: int, n: int, o: dict[str, Any], ready: Callable[[], Any]
) -> tuple[float, float]:
    """The stream of pickles: one XADD for each trial."""
    import redis

    client = redis.Redis.from_url(url)
    trials = [make_trial(ticket(0), incompressible(o["size"]))] * n
    ready()
    started = time.monotonic()
    for trial in trials:
        client.xadd("stream", {"trial": pickle.dumps(trial)})
    return started, time.monotonic()


def sample_pattern(
    url: str, part: int, n: int, o: dict[str, Any], ready: Callable[[], Any]
) -> tuple[float, float]:
    """XREAD with COUNT 1 for each trial."""
    import redis

    client = redis.Redis.from_url(url)
    client.ping()
    ready()
    started, last = time.monotonic(), "0"
    for _ in range(n):
        reply: Any = client.xread({"stream": last}, count=1)
        entries = next(iter(reply.values()))[0] if isinstance(reply, dict) else reply[0][1]
        last, fields = entries[0]
        assert isinstance(pickle.loads(fields[b"trial"]), Trial)
    return started, time.monotonic()


def _process(job: Job, url: str, part: int, n: int, o: dict[str, Any], barrier: Any, results: Any) -> None:
    try:
        results.put(job(url, part, n, o, lambda: barrier.wait(60)))
    except BaseException as error:
        results.put(f"{type(error).__name__}: {error}")
        barrier.abort()
        raise


def rate(job: Job, url: str, processes: int, n: int, **options: Any) -> float:
    """Items per second of `n` items, worked on by so many processes at once."""
    barrier, results = _context.Barrier(processes), _context.Queue()
    each = n // processes
    workers = [
        _context.Process(target=_process, args=(job, url, part, each, options, barrier, results))
        for part in range(processes)
    ]
    for worker in workers:
        worker.start()
    times = [results.get(timeout=180) for _ in workers]
    for worker in workers:
        worker.join(30)
    for found in times:
        if isinstance(found, str):
            raise RuntimeError(found)
    return each * processes / (max(t[1] for t in times) - min(t[0] for t in times))


def soak_producer(url: str, settings: bytes, part: int) -> None:
    """Plays trials of the quickstart's size until the end of the stream."""
    from benchmarks.replay_trials import played

    options = msgspec.msgpack.decode(settings)
    with ReplayBuffer(url, "soak", **options) as buffer:
        while not buffer.draining():
            claims = buffer.claim(f"w{part}", 16, block_s=0.2)
            buffer.commit([(c, played(c.ticket)) for c in claims])


def soak_learner(url: str, settings: bytes, wanted: int) -> None:
    options = msgspec.msgpack.decode(settings)
    with ReplayBuffer(url, "soak", **options) as buffer:
        done = 0
        while done < wanted:
            groups = buffer.take_groups(16, block_s=5)
            buffer.finish_groups([g.id for g in groups], "trained")
            done += sum(len(g.trials) for g in groups)
        buffer.announce()


def start(target: Callable[..., None], *args: Any) -> Any:
    """A process of its own."""
    process = _context.Process(target=target, args=args, daemon=True)
    process.start()
    return process

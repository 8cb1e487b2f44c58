"""Traces of trials: real agent actor, real OTLP over HTTP to a collector of the test's own."""

from __future__ import annotations

import asyncio
import gzip
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest
import ray

from actors import agent
from actors.agent_settings import AgentSettings
from agentmem.replay import ReplayBuffer
from tests.actors.conftest import START_S, minesweeper_tickets, take_all

pytestmark = pytest.mark.usefixtures("cluster")
OpenBuffer = Callable[..., ReplayBuffer]
MakeSettings = Callable[..., AgentSettings]


class Collector:
    """Takes traces as OTLP's HTTP receivers do."""

    def __init__(self) -> None:
        self.requests: queue.Queue[Any] = queue.Queue()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                outer.requests.put(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self) -> list[Any]:
        found = []
        while not self.requests.empty():
            for resource in self.requests.get().resource_spans:
                for scope in resource.scope_spans:
                    found.extend(scope.spans)
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


async def play(
    buffer: ReplayBuffer, settings: AgentSettings, engine: Any, url: str, groups: int
) -> list[Any]:
    """What an agent plays that is traced to `url`, until its end."""
    buffer.submit(minesweeper_tickets(groups, 2))
    env_vars = {"env_vars": {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OMP_NUM_THREADS": "1"}}
    handle = agent.create(settings, "traced", runtime_env=env_vars)
    await asyncio.wait_for(handle.start.remote(), START_S)
    await asyncio.wait_for(handle.configure.remote({"agent-0": engine}, {}), 20)
    run = handle.run.remote()
    taken = await take_all(buffer, groups)
    await asyncio.wait_for(handle.drain.remote(20.0), 40)
    await asyncio.wait_for(run, 30)
    ray.kill(handle)
    return [trial for group in taken for trial in group.trials]


def attributes(span: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in span.attributes}


async def test_a_traced_trial_is_one_trace_with_a_span_for_each_answer_and_step(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any, collector: Collector
) -> None:
    buffer = open_buffer()
    traced = msgspec.structs.replace(settings(buffer), traces=1.0)
    trials = await play(buffer, traced, engine, collector.url, groups=2)
    spans = collector.spans()
    roots = {span.trace_id: span for span in spans if span.name == "trial"}
    assert {attributes(root)["ticket"] for root in roots.values()} == {trial.ticket for trial in trials}
    for root in roots.values():
        about = attributes(root)
        (trial,) = (t for t in trials if t.ticket == about["ticket"])
        within = [s for s in spans if s.trace_id == root.trace_id and s.span_id != root.span_id]
        assert all(s.parent_span_id == root.span_id for s in within)
        names = Counter(s.name for s in within)
        turns = sum(len(episode.turns) for episode in trial.episodes)
        assert (names["act"], names["env.step"], names["env.reset"]) == (turns, turns, 1)
        assert names["env.restart"] == len(trial.episodes) - 1
        assert (about["episodes"], about["turns"], about["success"]) == (
            len(trial.episodes), turns, trial.success,
        )  # fmt: skip
        acts = [attributes(s) for s in within if s.name == "act"]
        assert {act["sampled_tokens"] for act in acts} == {1}
        assert all(root.start_time_unix_nano <= s.start_time_unix_nano for s in within)


async def test_a_collector_that_is_away_costs_no_trial(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any
) -> None:
    buffer = open_buffer()
    traced = msgspec.structs.replace(settings(buffer), traces=1.0)
    trials = await play(buffer, traced, engine, "http://127.0.0.1:9", groups=2)
    assert len(trials) == 4
    assert buffer.counters().identity_holds


async def test_trials_outside_the_share_leave_no_trace(
    open_buffer: OpenBuffer, settings: MakeSettings, engine: Any, collector: Collector
) -> None:
    buffer = open_buffer()
    traced = msgspec.structs.replace(settings(buffer), traces=1e-9)
    assert len(await play(buffer, traced, engine, collector.url, groups=1)) == 2
    assert collector.spans() == []

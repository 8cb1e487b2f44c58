"""A run on a real Ray cluster of two nodes that grows, shrinks and loses a node while it trains.

    python -m benchmarks.scaling [--seconds 20] [--save]

Everything is real: `ray start` twice on this machine, Redis on TCP, the job submitted over the Jobs API,
`agentmem scale` and `agentmem status` in processes that know the run by its name and Redis alone, as on any
machine.
The environment waits 50 ms in each step, one step at a time in a worker, so that two cores suffice: a worker
makes at most 20 steps a second. Printed and, with `--save`, written to benchmarks/results/scaling.json: steps
per second in each phase, how long each change took, and the accounting at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections import Counter
from pathlib import Path
from typing import Any

from agentmem.replay.embedded import EmbeddedServer
from benchmarks.ray_nodes import Nodes, until

STEP_S = 0.05
HEAD = {"CPU": 8, "env_worker": 6, "agent": 3, "engine": 1, "learner": 1}
SECOND = {"CPU": 8, "env_worker": 6, "agent": 3}
SETTINGS = (
    "policies.agent.warmup.steps=30",
    "policies.agent.warmup.batch_rows=64",
    "rollout.tasks_per_update=4",
    "rollout.group_size=8",
    "replay.max_staleness=4",
    "evaluation.tasks=0",
    "agents.trials_in_flight=5",
    "engines.agent.backend=torch",
    "engines.agent.max_num_seqs=32",
    "env.placement=worker",
    "env.workers=2",
    "env.slots_per_worker=8",
    f"env.step_wait_s={STEP_S}",
    "learner.updates=100000",
    "learner.checkpoint_every=5",
    "supervision.ping_timeout_s=8.0",
    "supervision.restart_budget=20",
    "scaling.groups=true",
)
START_S = 300.0
PHASES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("2 env workers, 1 agent", ()),
    ("6 env workers, 1 agent", ("env-workers=6",)),
    ("6 env workers, 3 agents", ("agents=3",)),
    ("3 env workers, 3 agents", ("env-workers=3",)),
)


class Outside:
    """Commands as on another machine: they know the run's name and its Redis, and have no run directory."""

    def __init__(self, run: str, url: str, folder: Path) -> None:
        parts = urllib.parse.urlsplit(url)
        self._run, self._folder = run, folder
        self._redis = f"redis://***@{parts.hostname}:{parts.port}/0"
        self._password = parts.password or ""

    def command(self, name: str, *arguments: str) -> str:
        """Its output."""
        words = [sys.executable, "-m", "agentmem", name, self._run, *arguments, "--redis", self._redis]
        environment = {**os.environ, "AGENTMEM_REDIS_PASSWORD": self._password}
        environment |= {"AGENTMEM_RUNS": str(self._folder / "nowhere")}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise SystemExit(f"{' '.join(words[2:])}: {done.stderr or done.stdout}")
        return done.stdout

    def status(self) -> dict[str, Any]:
        """`agentmem status --json`."""
        found: dict[str, Any] = json.loads(self.command("status", "--json"))
        return found


def steps_per_s(outside: Outside, seconds: float) -> float:
    """Mean of what the run says of its last ten seconds, over so many seconds."""
    time.sleep(10)  # until nothing of the phase before is in the window
    seen, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        seen.append(outside.status()["status"]["turns_per_s"])
        time.sleep(2)
    return sum(seen) / len(seen)


def measured(nodes: Nodes, server: EmbeddedServer, folder: Path, seconds: float) -> dict[str, Any]:
    """Submit, scale, kill, stop; the figures."""
    runs = folder / "runs"
    parts = urllib.parse.urlsplit(server.tcp_url)
    words = ["python", "-m", "agentmem", "run", "lamer-minesweeper"]
    url = f"replay.url=redis://***@{parts.hostname}:{parts.port}/0"
    words += [word for setting in (*SETTINGS, url) for word in ("--set", setting)]
    secret = {"AGENTMEM_REDIS_PASSWORD": parts.password or "", "AGENTMEM_RUNS": str(runs)}
    job = nodes.submit(" ".join(f"'{word}'" for word in words), secret)

    def updates() -> list[dict[str, Any]]:
        if nodes.client().get_job_status(job).is_terminal():
            raise SystemExit(f"the job ended:\n{nodes.client().get_job_logs(job)[-4000:]}")
        files = list(runs.glob("*/metrics.jsonl"))
        lines = files[0].read_text().splitlines() if files else []
        return [r for r in map(json.loads, lines) if r["record"] == "update"]

    until(lambda: len(updates()) >= 2, START_S, "the run doesn't train")
    (run,) = runs.iterdir()
    outside = Outside(run.name, server.tcp_url, folder)
    rows = []
    for name, wish in PHASES:
        began = time.monotonic()
        if wish:
            print(outside.command("scale", *wish), flush=True)
        took = time.monotonic() - began if wish else 0.0
        rows.append({"phase": name, "change_s": round(took, 1), "steps_per_s": steps_per_s(outside, seconds)})
        print(rows[-1], flush=True)
    before = outside.status()
    print(outside.command("status"), flush=True)
    lost = nodes.kill(1)
    killed, done = time.monotonic(), len(updates())
    print(f"killed the second node with {lost}", flush=True)

    def whole() -> bool:
        kinds = outside.status()["status"]["kinds"].values()
        return all(kind["running"] == kind["desired"] for kind in kinds) and len(updates()) >= done + 3

    until(whole, START_S, "the run doesn't go on without the second node", every_s=1.0)
    recovered = time.monotonic() - killed
    after = {"phase": "3 env workers, 3 agents, one node", "change_s": round(recovered, 1)}
    rows.append({**after, "steps_per_s": steps_per_s(outside, seconds)})
    print(rows[-1], flush=True)
    nodes.client().stop_job(job)
    until(lambda: nodes.client().get_job_status(job).is_terminal(), 120, "the job doesn't stop")
    end = outside.status()
    trained = Counter(g for r in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
                      if r["record"] == "update" for g in r["groups"])  # fmt: skip
    return {
        "phases": rows,
        "lost_with_the_node": lost,
        "tickets": {k: v for k, v in end["tickets"].items() if isinstance(v, int) and v},
        "identity_holds": before["identity_holds"] and end["identity_holds"],
        "groups_trained": len(trained),
        "groups_trained_twice": sum(n > 1 for n in trained.values()),
        "failed": end["tickets"]["failed"] + end["tickets"]["dead_letters"],
        "stopped": end["stopped"],
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    os.environ["RAY_AUTH_MODE"] = "disabled"
    with (
        tempfile.TemporaryDirectory(prefix="am-scaling-") as folder,
        EmbeddedServer(tcp_host="127.0.0.1") as server,
        Nodes(HEAD, SECOND) as nodes,
    ):
        found = measured(nodes, server, Path(folder), given.seconds)
    print(json.dumps(found, indent=1))
    if given.save:
        path = Path(__file__).parent / "results" / "scaling.json"
        path.write_text(json.dumps(found, indent=1) + "\n")
    wrong = [k for k in ("failed", "groups_trained_twice") if found[k]]
    if wrong or not found["identity_holds"]:
        raise SystemExit(f"something was lost: {wrong or 'the accounting identity'}")


if __name__ == "__main__":
    main()

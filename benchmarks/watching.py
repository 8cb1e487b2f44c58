"""Prometheus on a real Ray cluster of two nodes: what it finds, what dashboards show, what alerts do.

    python -m benchmarks.watching [--save] [--pictures docs/dashboards]

Prometheus (Debian's package) finds both nodes by the file that Ray keeps for it. Runs of LaMer, EMPO² and
Mem-π train as jobs and send their metrics through Ray. Then: every expression of every dashboard is asked for
data of these runs, and of a staged run (`benchmarks/staged.py`), which has what a healthy one hasn't, as dead
letters; three faults are made in a real run (its accounting broken in Redis, env workers killed, the driver
killed), all others in the staged one; each alert must fire, and be over when the fault is. Windows are short.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from agentmem.app.deploy.rules import AlertSettings, rules_text
from agentmem.replay import ReplayBuffer
from agentmem.replay.embedded import EmbeddedServer
from benchmarks.ray_nodes import ROOT, Nodes, free_port, until
from benchmarks.staged import FAULTS, RUN, Staged

HEAD = {"CPU": 12, "env_worker": 6, "agent": 6, "engine": 6, "engine_memory": 6, "learner": 6, "generator": 6}
SECOND = {"CPU": 8, "env_worker": 6, "second": 1}
SHORT = AlertSettings(
    look="20s", stalled="5s", starving="5s", staleness="20s", buffer="5s", restarts="60s", accounting="2s",
    serving="5s", steps="20s", advice="20s", advice_least=1, gone="60s", missing="5s",
)  # fmt: skip
SMALL = (
    "policies.agent.warmup.steps=30",
    "policies.agent.warmup.batch_rows=64",
    "evaluation.tasks=8",
    "learner.updates=100000",
    "learner.checkpoint_every=1000",
    "telemetry.backend=ray",
    "supervision.restart_budget=50",
    "supervision.ping_timeout_s=8.0",
    "scaling.groups=true",
)
WORKERS = ("env.placement=worker", "env.workers=2", "env.slots_per_worker=8")
JOBS: dict[str, tuple[str, ...]] = {
    "empo2-doors": ("engines.agent.backend=torch", "memory.tips.p=0.5"),
    "mempi-doors": (
        "engines.memory.backend=torch",
        "policies.memory.warmup.steps=30",
        "policies.memory.warmup.batch_rows=64",
    ),
    "lamer-minesweeper": ("engines.agent.backend=torch", "replay.fraction=0.25", *WORKERS),
}
"""Faults are made in the last one that is chosen."""
UPDATES, LONG_S, WINDOW = 12, 420.0, "20s"


def ask(url: str, path: str, **parameters: Any) -> Any:
    """Data of an answer; None while it can't be asked."""
    query = urllib.parse.urlencode(parameters)
    try:
        with urllib.request.urlopen(f"{url}/api/v1/{path}?{query}", timeout=20) as answer:
            return json.load(answer)["data"]
    except (urllib.error.URLError, ConnectionError):
        return None


@contextlib.contextmanager
def prometheus(nodes: Nodes, folder: Path) -> Iterator[str]:
    """Scrapes what Ray's file names, by our rules."""
    rules = rules_text("ray_", SHORT).replace("interval: 15s", "interval: 1s")
    (folder / "rules.yml").write_text(rules)
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 1s}\n"
        "rule_files: [rules.yml]\n"
        "scrape_configs: [{job_name: ray, file_sd_configs: "
        f"[{{files: ['{nodes.discovery}'], refresh_interval: 2s}}]}}]\n"
    )
    port = free_port()
    words = ["prometheus", f"--config.file={folder / 'prometheus.yml'}"]
    words += [f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


class Job:
    """A run as a job on the cluster."""

    def __init__(self, nodes: Nodes, recipe: str, url: str, folder: Path) -> None:
        parts = urllib.parse.urlsplit(url)
        self.runs = folder / recipe
        self._nodes = nodes
        words = ["python", "-m", "agentmem", "run", recipe]
        given = (*SMALL, *JOBS[recipe], f"replay.url=redis://***@{parts.hostname}:{parts.port}/0")
        words += [word for setting in given for word in ("--set", setting)]
        secret = {"AGENTMEM_REDIS_PASSWORD": parts.password or "", "AGENTMEM_RUNS": str(self.runs)}
        self.id = nodes.submit(" ".join(f"'{word}'" for word in words), secret)

    def updates(self) -> int:
        """Done so far. SystemExit if the job has ended."""
        if self._nodes.client().get_job_status(self.id).is_terminal():
            raise SystemExit(f"the job ended:\n{self._nodes.client().get_job_logs(self.id)[-3000:]}")
        files = list(self.runs.glob("*/metrics.jsonl"))
        lines = files[0].read_text().splitlines() if files else []
        return sum(json.loads(line)["record"] == "update" for line in lines)

    @property
    def name(self) -> str:
        """Of the run."""
        (run,) = self.runs.iterdir()
        return run.name

    def stop(self) -> None:
        """By the Jobs API."""
        self._nodes.client().stop_job(self.id)
        until(lambda: self._nodes.client().get_job_status(self.id).is_terminal(), 120, "it doesn't stop")


def expressions() -> list[tuple[str, str]]:
    """Panel and expression, of all dashboards for Ray's names."""
    return [
        (f"{board.stem}: {panel['title']}", target["expr"])
        for board in sorted((ROOT / "deploy/grafana/ray").glob("*.json"))
        for panel in json.loads(board.read_text())["panels"]
        for target in panel.get("targets", [])
    ]


def without_data(url: str, runs: str, since: float) -> list[str]:
    """Panels with an expression that gave nothing at any time since then."""
    found = []
    for where, expression in expressions():
        query = expression.replace("$__rate_interval", WINDOW).replace("$run", runs)
        answer = ask(url, "query_range", query=query, start=since, end=time.time(), step=5)
        if answer is None:
            raise SystemExit(f"Prometheus refuses {query}")
        if not any(each["values"] for each in answer["result"]):
            found.append(where)
    return found


def firing(url: str, name: str, run: str) -> bool:
    """Whether an alert fires for a run."""
    alerts = (ask(url, "alerts") or {"alerts": []})["alerts"]
    return any(
        a["labels"]["alertname"] == name and a["labels"].get("run") == run and a["state"] == "firing"
        for a in alerts
    )


def fired_and_cleared(url: str, name: str, run: str, begin: Any, end: Any) -> dict[str, Any]:
    """Seconds from a fault's begin to the alert, and from its end to silence."""
    until(lambda: not firing(url, name, run), LONG_S, f"{name} fires before its fault")
    began = time.monotonic()
    begin()
    until(lambda: firing(url, name, run), LONG_S, f"{name} doesn't fire")
    fired = time.monotonic()
    end()
    until(lambda: not firing(url, name, run), LONG_S, f"{name} isn't over")
    row = {"alert": name, "run": run, "fires_s": fired - began, "clears_s": time.monotonic() - fired}
    row = {key: round(value, 1) if isinstance(value, float) else value for key, value in row.items()}
    print(row, flush=True)
    return row


def kill_env_workers(nodes: Nodes) -> None:
    """Three of the cluster's, one after another."""
    for number in range(3):

        def victim() -> psutil.Process | None:
            return next(iter(nodes.family(lambda line: line.startswith("ray::EnvWorker"))), None)

        until(victim, LONG_S, f"no env worker to kill ({number} were)").kill()
        time.sleep(5)  # the supervisor looks every two seconds


def real_faults(url: str, nodes: Nodes, job: Job, server: EmbeddedServer) -> list[dict[str, Any]]:
    """In a real run; the last ends it."""
    run = job.name
    with ReplayBuffer(server.tcp_url, run) as buffer:

        def lose(count: int) -> None:
            buffer.server.client.hincrby(buffer.keys("n"), "submitted", count)

        rows = [
            fired_and_cleared(url, "AgentMemAccountingBroken", run, lambda: lose(2), lambda: lose(-2)),
            fired_and_cleared(
                url, "AgentMemRestartStorm", run, lambda: kill_env_workers(nodes), lambda: None
            ),
        ]
    (driver,) = nodes.family(lambda line: line.startswith("python -m agentmem run"))
    return [*rows, fired_and_cleared(url, "AgentMemRunGone", run, driver.kill, lambda: None)]


def staged_faults(url: str, nodes: Nodes, chosen: list[str]) -> tuple[list[dict[str, Any]], Any]:
    """All the others, through an actor on the second node."""
    import ray

    def made() -> Any:
        actor = ray.remote(Staged).options(num_cpus=0, resources={"second": 0.1}).remote()
        ray.get(actor.beats.remote(), timeout=LONG_S)
        return actor

    ray.init(address=nodes.gcs, log_to_driver=False)
    actor = made()
    query = f'ray_agentmem_done_updates_count{{run="{RUN}"}} > 30'
    until(
        lambda: (ask(url, "query", query=query) or {}).get("result"), LONG_S, "the staged run isn't scraped"
    )
    rows = []
    for name, fault in ((name, FAULTS[name]) for name in chosen):
        begin, end = (lambda f=fault: ray.get(actor.fault.remote(f))), (lambda: ray.get(actor.heal.remote()))
        rows.append(fired_and_cleared(url, name, RUN, begin, end))
    kept = [actor]
    rows.append(
        fired_and_cleared(
            url, "AgentMemRunGone", RUN, lambda: ray.kill(kept.pop()), lambda: kept.append(made())
        )
    )
    return rows, kept[0]


def nodes_up(url: str, nodes: Nodes) -> dict[str, str]:
    """Targets with their health, as Prometheus has them."""
    targets = (ask(url, "targets") or {"activeTargets": []})["activeTargets"]
    return {target["labels"]["instance"]: target["health"] for target in targets}


def pictures(url: str, folder: Path, runs: str, since: float) -> None:
    """Each dashboard as it looks now."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for board in sorted((ROOT / "deploy/grafana/ray").glob("*.json")):
        out = folder / f"{board.stem}.png"
        words = [sys.executable, str(ROOT / "deploy/grafana/draw.py"), str(board), url, "-o", str(out)]
        words += ["--run", runs, "--last", f"{int(time.time() - since)}s", "--window", WINDOW]
        subprocess.run(words, check=True)
        with Image.open(out) as drawn:
            drawn.convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(out, optimize=True)


def measured(
    nodes: Nodes,
    server: EmbeddedServer,
    folder: Path,
    recipes: list[str],
    faults: list[str],
    into: Path | None,
) -> dict[str, Any]:
    """The figures."""
    with prometheus(nodes, folder) as url:
        wanted = len(json.loads(nodes.discovery.read_text())[0]["targets"])
        until(lambda: list(nodes_up(url, nodes).values()).count("up") == wanted, 120, "targets aren't up")
        targets, since, names = nodes_up(url, nodes), time.time(), []
        for recipe in recipes:
            job = Job(nodes, recipe, server.tcp_url, folder)
            until(lambda job=job: job.updates() >= UPDATES, LONG_S, f"{recipe} doesn't train", every_s=1.0)
            time.sleep(12)  # six exports more
            names.append(job.name)
            print(f"{job.name}: {job.updates()} updates", flush=True)
            if recipe != recipes[-1]:
                job.stop()
        real, of_runs = "|".join(names), expressions()
        empty = without_data(url, real, since) if recipes else None
        if into is not None and recipes:
            pictures(url, into, real, since)
        alerts = real_faults(url, nodes, job, server) if recipes else []
        staged, actor = staged_faults(url, nodes, faults)
        still_empty = without_data(url, ".*", since)
        del actor
    return {
        "recipes": recipes,
        "targets": targets,
        "expressions": len(of_runs),
        "without_data_of_real_runs": empty,
        "without_data": still_empty,
        "alerts": [*alerts, *staged],
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/watching.json")
    parser.add_argument("--pictures", type=Path, help="draw the dashboards there")
    parser.add_argument("--faults", nargs="*", choices=FAULTS, default=list(FAULTS), help="which are staged")
    parser.add_argument("--recipes", nargs="*", choices=JOBS, default=list(JOBS), help="which train")
    given = parser.parse_args()
    os.environ["RAY_AUTH_MODE"] = "disabled"
    with (
        tempfile.TemporaryDirectory(prefix="am-watching-") as folder,
        EmbeddedServer(tcp_host="127.0.0.1") as server,
        Nodes(HEAD, SECOND) as nodes,
    ):
        found = measured(nodes, server, Path(folder), given.recipes, given.faults, given.pictures)
    print(json.dumps(found, indent=1))
    if given.save:
        path = Path(__file__).parent / "results" / "watching.json"
        path.write_text(json.dumps(found, indent=1) + "\n")
    if found["without_data"]:
        raise SystemExit(f"without data: {found['without_data']}")


if __name__ == "__main__":
    main()

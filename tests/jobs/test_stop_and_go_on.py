"""Jobs on a real head with a token, and a real server with a password: submit, stop in the middle of an
update, submit again. Every trial is trained once, and no secret is anywhere that others read.

`pytest -s tests/jobs/test_stop_and_go_on.py` prints what it saw.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from agentmem.app.jobs.client import Jobs
from agentmem.replay import EmbeddedServer, ReplayBuffer
from learner.checkpoint import newest
from tests.e2e.runs import TINY, TORCH
from tests.jobs.heads import RAY, Head, head

ROOT = Path(__file__).resolve().parents[2]
RECIPE = "lamer-minesweeper"
WAIT_S = 240.0
STOP_S = 60


@dataclass
class Place:
    """The cluster, its Redis, and where its runs are."""

    head: Head
    password: str
    replay_url: str
    full_url: str
    runs: Path
    holds: Path

    def settings(self, *more: str) -> list[str]:
        wanted = (
            *TINY, *TORCH, "evaluation.tasks=0", "learner.checkpoint_every=1000", "learner.updates=4000",
            f"replay.url={self.replay_url}", "replay.lease_s=10", *more,
        )  # fmt: skip
        return [word for setting in wanted for word in ("--set", setting)]

    def agentmem(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A client, which knows the cluster's token and not the server's password."""
        env = self.head.variables(PYTHONPATH=str(ROOT), **variables)
        return subprocess.run(
            [sys.executable, "-m", "agentmem", *words],
            env=env, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip

    def submit(self, *words: str, stop_wait: int = STOP_S) -> str:
        """A job, by `agentmem submit`; its id."""
        done = self.agentmem(
            "submit", RECIPE, "--address", self.head.url, "--runs", str(self.runs),
            "--env", f"AGENTMEM_CACHE={os.environ['AGENTMEM_CACHE']}", "--stop-wait", str(stop_wait), *words,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"^uploading \d\.\d MB in \d+ files \(limit 100 MiB\)$", done.stdout, re.MULTILINE)
        found = re.search(r"^job (\S+) at ", done.stdout, re.MULTILINE)
        assert found is not None, done.stdout
        return found[1]

    @property
    def run(self) -> Path:
        """The only run."""
        (path,) = self.runs.iterdir()
        return path

    def records(self, kind: str) -> list[dict[str, Any]]:
        """What its metrics hold."""
        if not self.runs.is_dir() or not any(self.runs.iterdir()):
            return []
        file = self.run / "metrics.jsonl"
        lines = file.read_text().splitlines() if file.is_file() else []
        return [r for r in map(json.loads, lines) if r["record"] == kind]

    def account(self) -> str:
        """Raise unless every group was trained once and the buffer's accounting adds up."""
        groups = [g for r in self.records("update") for g in r["groups"]]
        assert len(groups) == len(set(groups)), "a group was trained twice"
        with ReplayBuffer(self.full_url, self.run.name, only_look=True) as buffer:
            c = buffer.counters()
        places = (c.queued, c.running, c.buffered, c.trained, c.filtered, c.failed, c.expired)
        assert c.submitted == sum(places), c
        assert (c.failed, c.expired) == (0, 0), c
        return (
            f"{c.submitted} submitted = {c.queued} queued + {c.running} running + {c.buffered} buffered "
            f"+ {c.trained} trained + {c.filtered} filtered"
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("jobs")
    holds = folder / "holds"
    holds.mkdir()
    with EmbeddedServer(tcp_host="127.0.0.1") as server:
        url = server.tcp_url
        password = urlsplit(url).password or ""
        shown = re.sub(r"://[^@]*@", "://***@", url)
        nodes = {"AGENTMEM_REDIS_PASSWORD": password, "AGENTMEM_CHAOS": str(holds)}
        with head(variables=nodes) as ray_head:
            yield Place(ray_head, password, shown, url, folder / "runs", holds)


@pytest.fixture
def jobs(place: Place) -> Iterator[Jobs]:
    from ray._private.authentication_test_utils import reset_auth_token_state

    # A process that has talked to another cluster goes on as it did there: Ray reads the variables once.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", place.head.token)
        reset_auth_token_state()
        yield Jobs(place.head.url)
    reset_auth_token_state()


def until(condition: Callable[[], bool], job: str, jobs: Jobs, seconds: float = WAIT_S) -> float:
    began = time.monotonic()
    while not condition():
        assert jobs.status(job) in ("PENDING", "RUNNING"), jobs.log(job)
        assert time.monotonic() - began < seconds, jobs.log(job)
        time.sleep(0.1)
    return time.monotonic() - began


def ended(job: str, jobs: Jobs, seconds: float = WAIT_S) -> tuple[str, float]:
    began = time.monotonic()
    while (how := jobs.ended(job)) is None:
        assert time.monotonic() - began < seconds, jobs.log(job)
        time.sleep(0.1)
    return how.status, time.monotonic() - began


def hidden(place: Place, *outputs: str) -> None:
    """The password is in no command line, file of the run, log of Ray, job's metadata, metric or output."""
    planted = (place.password, place.head.token)
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = entry.read_bytes().decode(errors="replace")
        except OSError:
            continue
        assert not any(secret in text for secret in planted), text
    logs = place.head.folder / "ray"
    for folder in (place.run, logs):
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                content = path.read_bytes()
                assert not any(secret.encode() in content for secret in planted), path
    told = [*outputs, json.dumps(place.head.ask("/api/jobs/"))]
    for endpoint in re.findall(r"metrics: (http://\S+)", "\n".join(outputs)):
        with (
            contextlib.suppress(urllib.error.URLError),
            urllib.request.urlopen(endpoint, timeout=10) as reply,
        ):
            told.append(reply.read().decode())
            assert "agentmem_" in told[-1]
    assert not any(secret in text for secret in planted for text in told)


def test_a_wrong_token_is_refused_in_one_line(place: Place) -> None:
    words = ("submit", RECIPE, "--address", place.head.url, "--runs", "/runs")
    done = place.agentmem(*words, RAY_AUTH_TOKEN="0" * 32)
    assert done.returncode == 4, done.stdout + done.stderr
    (line,) = [row for row in done.stderr.splitlines() if row.startswith("error: ")]
    assert "wants a token that it knows (RAY_AUTH_MODE is token): set RAY_AUTH_MODE=token" in line
    assert "Traceback" not in done.stderr


def test_a_job_stopped_in_mid_update_goes_on_from_its_checkpoint(place: Place, jobs: Jobs) -> None:
    # The stop comes while an update is under way; it ends, and a checkpoint is written before the job does.
    job = place.submit(*place.settings())
    until(lambda: len(place.records("update")) >= 3, job, jobs)
    hold = place.holds / "learner.update.hold"
    hold.touch()
    until(lambda: hold.with_suffix(".held").exists(), job, jobs)
    before = len(place.records("update"))
    hidden(place, jobs.log(job))
    began = time.monotonic()
    assert jobs.stop(job)
    log = place.run / "logs" / "driver.log"
    until(lambda: "asked to end" in log.read_text(), job, jobs, 30)
    hold.unlink()
    hold.with_suffix(".held").unlink()
    status, _ = ended(job, jobs, STOP_S)
    took = time.monotonic() - began
    assert status == "STOPPED", jobs.log(job)
    reached = len(place.records("update"))
    assert reached == before + 1
    saved = newest(place.run / "checkpoints")
    assert saved is not None
    assert saved.extra["caller"]["update"] == reached
    first = place.account()
    assert f"checkpoint of update {reached} in " in jobs.log(job)

    # The same command with --resume: on from there. This time the stop is too short for the update.
    again = place.submit("--resume", "last", *place.settings("learner.checkpoint_every=2"), stop_wait=6)
    until(lambda: len(place.records("update")) >= reached + 3, again, jobs)
    hold.touch()
    until(lambda: hold.with_suffix(".held").exists(), again, jobs)
    done = len(place.records("update"))
    began = time.monotonic()
    assert jobs.stop(again)
    status, _ = ended(again, jobs, 60)
    short = time.monotonic() - began
    assert status == "STOPPED", jobs.log(again)
    hold.unlink()
    hold.with_suffix(".held").unlink()
    saved = newest(place.run / "checkpoints")
    assert saved is not None
    kept = saved.extra["caller"]["update"]
    assert done - 2 < kept <= done  # the last one of every two updates, complete

    # Ray's own command line does, too.
    last = done + 3
    runtime = {
        "env_vars": {
            "AGENTMEM_RUNS": str(place.runs),
            "AGENTMEM_CACHE": os.environ["AGENTMEM_CACHE"],
            "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_S),
        }
    }
    plain = subprocess.run(
        [str(RAY), "job", "submit", "--address", place.head.url, "--working-dir", ".",
         "--runtime-env-json", json.dumps(runtime), "--",
         "python", "-m", "agentmem", "run", RECIPE, "--resume", "last", "--set", f"learner.updates={last}"],
        env=place.head.variables(), cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert plain.returncode == 0, plain.stdout + plain.stderr
    updates = place.records("update")
    assert [r["update"] for r in updates] == list(range(1, last + 1))
    resumes = [r["detail"] for r in place.records("event") if r["what"] == "resume"]
    assert [re.match(r"update (\d+),", detail)[1] for detail in resumes] == [str(reached), str(kept)]  # type: ignore[index]
    second = place.account()
    hidden(place, jobs.log(again), plain.stdout)
    print(
        f"\nstopped in update {before + 1}: it ended, checkpoint {reached}, job over after {took:.1f} s"
        f"\n  {first}"
        f"\nstop of 6 s, update {done + 1} held: checkpoint {kept}, job over after {short:.1f} s"
        f"\nresumed twice to update {last}, each once\n  {second}"
    )


def test_following_shows_the_run_and_ends_with_its_status(place: Place) -> None:
    done = place.agentmem(
        "submit", RECIPE, "--address", place.head.url, "--follow", "--env",
        f"AGENTMEM_CACHE={os.environ['AGENTMEM_CACHE']}", *place.settings("learner.updates=1"),
    )  # fmt: skip
    # No directory of runs: the job's own would be gone with it.
    assert done.returncode == 2, done.stdout + done.stderr
    assert "error: runs would go to runs in Ray's temporary copy of the job's files" in done.stdout
    assert done.stdout.splitlines()[-1].endswith(": failed (2)")


def test_the_doctor_examines_a_cluster_of_two_nodes_from_outside(place: Place) -> None:
    joined = place.head.join("--num-cpus=2", AGENTMEM_REDIS_PASSWORD=place.password)
    runs = place.runs.parent / "doctor"
    deadline = time.monotonic() + WAIT_S
    while "2 nodes" not in _nodes(place):
        assert joined.poll() is None, place.head.log()
        assert time.monotonic() < deadline, place.head.log()
        time.sleep(0.2)
    done = place.agentmem(
        "doctor", RECIPE, "--address", place.head.url, "--runs", str(runs),
        "--env", f"AGENTMEM_CACHE={os.environ['AGENTMEM_CACHE']}", *place.settings(),
    )  # fmt: skip
    rows = {row[2:20].strip(): row for row in done.stdout.splitlines()}
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 nodes at " in rows["cluster"]
    assert "on each of 2 nodes" in rows["code"]
    assert "on each of 2 nodes" in rows["shared directory"]
    assert re.search(r"\): within \d\.\d{3} s", rows["clock"])
    assert rows["secrets"].endswith("by reference: AGENTMEM_REDIS_PASSWORD, set")
    assert "FAKE trial of minesweeper" in rows["fake trial"]
    print("\n" + done.stdout)


def _nodes(place: Place) -> str:
    told: Any = place.head.ask("/nodes?view=summary")
    alive = [n for n in told["data"]["summary"] if n["raylet"].get("state") == "ALIVE"]
    return f"{len(alive)} nodes"

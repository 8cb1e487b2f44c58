"""What a job is made of, before anything is sent."""

from __future__ import annotations

import http.server
import io
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import ClassVar

import pytest
from rich.console import Console

from agentmem.app.jobs import client
from agentmem.app.jobs.client import Jobs, choose_authentication
from agentmem.app.jobs.follow import FollowView
from agentmem.app.jobs.package import package
from agentmem.app.jobs.submission import Surroundings, submission
from agentmem.app.reporting.run_buffer import with_password
from agentmem.app.reporting.rundir import runs_base
from agentmem.failures import ConfigError, InfrastructureError

ROOT = Path(__file__).resolve().parents[2]


def test_the_packages_travel_and_nothing_that_lies_beside_them(tmp_path: Path) -> None:
    files = package("lamer-minesweeper")
    assert {name.split("/")[0] for name in files.files} == {"agentmem", "actors", "learner", "envs"}
    assert "agentmem/recipes/lamer-minesweeper.yaml" in files.files
    assert not [name for name in files.files if "__pycache__" in name]
    files.copy_to(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "agentmem", "recipes"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "lamer-minesweeper " in done.stdout


def test_a_recipes_file_travels_with_its_bases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "one.yaml").write_text("base: mine/two.yaml\n")
    (tmp_path / "mine" / "two.yaml").write_text("base: lamer-minesweeper\n")
    (tmp_path / "mine" / ".gitignore").write_text("*\n")
    assert set(package("mine/one.yaml", code=False).files) == {"mine/one.yaml", "mine/two.yaml"}
    assert set(package("x", [Path("mine")], code=False).files) == {"mine/one.yaml", "mine/two.yaml"}
    assert submission("run", "mine/one.yaml", [], Surroundings()).command == (
        "exec python -m agentmem run mine/one.yaml"
    )


def test_files_from_elsewhere_and_secrets_stay_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.yaml").write_text("base: lamer-minesweeper\n")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    (here / ".env").write_text("PASSWORD=geheim\n")
    with pytest.raises(ConfigError, match="lies outside the working directory"):
        package("x", [Path("../other.yaml")])
    with pytest.raises(ConfigError, match=r"recipe file .*other.yaml: lies outside the working directory"):
        submission("run", "../other.yaml", [], Surroundings())
    with pytest.raises(ConfigError, match=r"\.env: has the name of a secret"):
        package("x", [Path(".")])
    with pytest.raises(ConfigError, match=r"--include nothing: no such file"):
        package("x", [Path("nothing")])


def test_a_job_gets_its_stop_time_its_python_and_its_directory_of_runs_and_installs_nothing() -> None:
    around = Surroundings("/opt/venv/", "/runs", 90, {"AGENTMEM_DATA": "/data"})
    job = submission("run", "lamer-minesweeper", ["learner.lr=1e-5", "env.options={size: 5}"], around)
    assert job.command == (
        "exec python -m agentmem run lamer-minesweeper --set learner.lr=1e-5 --set 'env.options={size: 5}'"
    )
    env = job.runtime_env(Path("/files"))
    assert set(env) == {"env_vars", "working_dir"}
    assert job.variables == {
        "RAY_JOB_STOP_WAIT_TIME_S": "90",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "PATH": "/opt/venv/bin:${PATH}",
        "AGENTMEM_RUNS": "/runs",
        "AGENTMEM_DATA": "/data",
    }
    assert job.id.startswith("agentmem-lamer-minesweeper-20")
    assert job.id != submission("run", "lamer-minesweeper", [], around).id


@pytest.mark.parametrize(
    ("overrides", "env", "says"),
    [
        (["replay.url=redis://:geheim@h/0"], {}, r"--set replay.url: holds a URL with a password"),
        (["replay.url=redis://me:geheim@h/0"], {}, r"--set replay.url: holds a URL with a password"),
        ([], {"MY_PASSWORD": "geheim"}, r"--env MY_PASSWORD: has the name of a secret"),
        ([], {"OPENAI_API_KEY": "geheim"}, r"--env OPENAI_API_KEY: has the name of a secret"),
        ([], {"X": "http://a:geheim@h"}, r"--env X: holds a URL with a password"),
    ],
)
def test_a_secret_never_becomes_part_of_a_job(overrides: list[str], env: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as told:
        submission("run", "lamer-minesweeper", overrides, Surroundings(env=env))
    assert "geheim" not in str(told.value)


def test_a_reference_to_a_secret_may_be_part_of_a_job() -> None:
    around = Surroundings(env={"AGENTMEM_REDIS_PASSWORD_FILE": "/run/secrets/redis"})
    job = submission("run", "lamer-minesweeper", ["replay.url=redis://***@host:6379/0"], around)
    assert "redis://***@host:6379/0" in job.command
    assert job.variables["AGENTMEM_REDIS_PASSWORD_FILE"] == "/run/secrets/redis"


def test_the_replay_password_can_be_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "password"
    file.write_text("ge/heim\n")
    monkeypatch.delenv("AGENTMEM_REDIS_PASSWORD", raising=False)
    monkeypatch.setenv("AGENTMEM_REDIS_PASSWORD_FILE", str(file))
    assert with_password("redis://***@h:1/0", "it", "set it") == "redis://:ge%2Fheim@h:1/0"
    monkeypatch.setenv("AGENTMEM_REDIS_PASSWORD_FILE", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"AGENTMEM_REDIS_PASSWORD_FILE is .*/none: can't be read"):
        with_password("redis://***@h:1/0", "it", "set it")


def test_relative_paths_on_nodes_and_no_time_at_all_are_refused() -> None:
    for around, says in (
        (Surroundings(runs="runs"), "--runs is runs: an absolute path"),
        (Surroundings(venv="venv"), "--venv is venv: an absolute path"),
        (Surroundings(stop_wait_s=0), "--stop-wait is 0: at least 1 second"),
    ):
        with pytest.raises(ConfigError, match=says):
            submission("run", "lamer-minesweeper", [], around)


def test_runs_never_go_into_rays_copy_of_the_jobs_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "session_1" / "runtime_resources" / "working_dir_files" / "_ray_pkg_1"
    copy.mkdir(parents=True)
    monkeypatch.chdir(copy)
    for value in ("", "mine"):
        monkeypatch.setenv("AGENTMEM_RUNS", value)
        with pytest.raises(ConfigError, match="temporary copy of the job's files: set AGENTMEM_RUNS"):
            runs_base()
    monkeypatch.setenv("AGENTMEM_RUNS", "/volume/runs")
    assert runs_base() == Path("/volume/runs")


def test_a_token_goes_to_the_cluster_that_it_was_given_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen(address: str, **variables: str) -> str | None:
        import os

        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        choose_authentication(address)
        return os.environ.get("RAY_AUTH_MODE")

    monkeypatch.setenv("HOME", str(tmp_path))
    assert chosen("http://head:8265") is None
    assert chosen("http://head:8265", RAY_AUTH_TOKEN="t") == "token"
    assert chosen("http://head:8265", RAY_AUTH_TOKEN="t", RAY_AUTH_MODE="disabled") == "disabled"
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("mine")
    assert chosen("http://head:8265") is None  # this machine's token is no business of another
    assert chosen("http://127.0.0.1:8265") == "token"


def test_an_address_that_is_none_and_one_that_nobody_answers_at() -> None:
    with pytest.raises(
        ConfigError, match=r"--address is 'head:6379': the address of the cluster's dashboard"
    ):
        Jobs("head:6379")
    with pytest.raises(
        ConfigError, match=r"--address names head with a user or password: a token goes"
    ) as told:
        Jobs("http://me:geheim@head:8265")
    assert "geheim" not in str(told.value)
    with pytest.raises(InfrastructureError, match=r"^cluster at http://127.0.0.1:1: ConnectionError: "):
        Jobs("http://127.0.0.1:1")


def test_output_is_shown_line_by_line_wherever_it_was_cut_and_steers_no_terminal() -> None:
    shown: list[str] = []
    with FollowView("job", Console(file=io.StringIO(), force_terminal=False), shown.append) as view:
        for piece in ("met", "rics: x\n0:00:01 | train", "ing | update 3/9\nred \x1b[31mtext\x07\nlast"):
            view.feed(piece)
    assert shown == ["metrics: x", "0:00:01 | training | update 3/9", "red text ", "last"]
    assert view.newest == "0:00:01 | training | update 3/9"


def test_in_a_terminal_progress_is_a_panel_and_the_rest_stands_above_it() -> None:
    screen, shown = io.StringIO(), list[str]()
    console = Console(file=screen, force_terminal=True, width=100)
    with FollowView("job-7", console, shown.append) as view:
        view.feed("run: /runs/x\n0:00:01 | training | update 3/9 | ETA 0:00:09\n")
    assert shown == ["run: /runs/x"]
    assert "job-7" in screen.getvalue()
    assert "update 3/9" in screen.getvalue()


def test_settings_are_checked_before_anything_is_sent() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentmem", "submit", "lamer-minesweeper", "--address", "http://127.0.0.1:1",
         "--set", "learner.lrr=1"],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error: unknown key 'learner.lrr'")
    assert done.stdout == ""


class _Starting(http.server.BaseHTTPRequestHandler):
    """A head that has no agent for jobs during its first two requests."""

    refused: ClassVar[int] = 0

    def do_GET(self) -> None:
        self._answer(200, {"version": "4", "ray_version": "2.60.0", "ray_commit": "x", "session_name": "s"})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if _Starting.refused < 2:
            _Starting.refused += 1
            self._answer(500, "No available agent to submit job, please try again later.")
        else:
            self._answer(200, {"job_id": "j", "submission_id": "j"})

    def _answer(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_a_head_that_is_still_starting_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RETRY_EVERY_S", 0.01)
    said: list[str] = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Starting) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        jobs = Jobs(f"http://127.0.0.1:{server.server_address[1]}")
        assert (
            jobs.submit(submission("run", "lamer-minesweeper", [], Surroundings()), None, said.append) == "j"
        )
        monkeypatch.setattr(client, "RETRY_S", 0.0)
        _Starting.refused = 0
        with pytest.raises(InfrastructureError, match="No available agent to submit job"):
            jobs.submit(submission("run", "lamer-minesweeper", [], Surroundings()), None, said.append)
        server.shutdown()
        thread.join(10)
    assert said[0] == "the head has no agent for jobs yet: trying again for up to 30 s"
    assert len(said) == 1

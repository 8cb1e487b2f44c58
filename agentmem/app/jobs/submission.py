"""What Ray is told of a job: its command, its files, its environment. Pure; holds no secret.

Whoever reads a cluster's dashboard reads all of it, so secrets are referred to: the nodes have
`AGENTMEM_REDIS_PASSWORD` and the keys of endpoints (or files that `…_FILE` name), the job doesn't. Nothing is
installed by the job (no `pip`): its Python is the one that the nodes' PATH has, or that of `venv`.
"""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from agentmem.failures import ConfigError

STOP_WAIT_S = 60
"""Between SIGTERM and SIGKILL: time for a checkpoint."""
_SECRET_NAME = re.compile(r"PASSWORD|PASSWD|TOKEN|SECRET|CREDENTIAL|(^|_)KEY$", re.IGNORECASE)
_URL_WITH_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s*]+[^/@\s]*@")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the nodes are like, and what the job may expect of them."""

    venv: str = ""
    """A virtual environment on the nodes, whose Python runs the job; empty: the one on their PATH."""
    runs: str = ""
    """Directory of runs there, on a volume that all nodes mount; empty: as their AGENTMEM_RUNS says."""
    stop_wait_s: int = STOP_WAIT_S
    env: Mapping[str, str] = field(default_factory=dict)
    """Further variables."""

    def variables(self) -> dict[str, str]:
        """The job's environment variables. Raises ConfigError for a secret or an impossible value."""
        if self.stop_wait_s < 1:
            raise ConfigError(f"--stop-wait is {self.stop_wait_s}: at least 1 second")
        for option, path in (("--runs", self.runs), ("--venv", self.venv)):
            if path and not path.startswith("/"):
                raise ConfigError(f"{option} is {path}: an absolute path on the nodes is needed")
        for name, value in self.env.items():
            refuse_secret(f"--env {name}", name, value)
        found = {
            "RAY_JOB_STOP_WAIT_TIME_S": str(self.stop_wait_s),
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }
        if self.venv:
            found["PATH"] = f"{self.venv.rstrip('/')}/bin:${{PATH}}"  # Ray fills in the nodes' own
        if self.runs:
            found["AGENTMEM_RUNS"] = self.runs
        return {**found, **self.env}


@dataclass(frozen=True, slots=True)
class Submission:
    """A job to be."""

    id: str
    command: str
    variables: dict[str, str]

    def runtime_env(self, folder: Path | None) -> dict[str, object]:
        """For Ray. `folder`: the files that it uploads."""
        env: dict[str, object] = {"env_vars": self.variables}
        return env if folder is None else {**env, "working_dir": str(folder)}


def submission(
    verb: str,
    recipe: str,
    overrides: Sequence[str],
    around: Surroundings,
    options: Sequence[str] = (),
    name: str = "",
) -> Submission:
    """`agentmem VERB RECIPE --set … OPTIONS` as a job. Raises ConfigError if anything of it is a secret."""
    words = ["python", "-m", "agentmem", verb, _relative(recipe)]
    for assignment in overrides:
        key, _, value = assignment.partition("=")
        refuse_secret(f"--set {key}", "", value)
        words += ["--set", assignment]
    words += options
    # `exec`: the signal of a stop reaches the program, and its exit status is the job's.
    return Submission(name or _name(verb, recipe), f"exec {shlex.join(words)}", around.variables())


def refuse_secret(what: str, name: str, value: str) -> None:
    """Raise ConfigError for a variable that is named like a secret, and for a URL with a password."""
    if _URL_WITH_PASSWORD.search(value):
        raise ConfigError(
            f"{what}: holds a URL with a password, which the job's metadata would show: write *** in its "
            "place, and set AGENTMEM_REDIS_PASSWORD (or AGENTMEM_REDIS_PASSWORD_FILE) on the nodes"
        )
    if _SECRET_NAME.search(name) and not name.upper().endswith("_FILE"):
        raise ConfigError(
            f"{what}: has the name of a secret, which the job's metadata would show: set it on the nodes"
        )


def _name(verb: str, recipe: str) -> str:
    """A name that no other job has, and that sorts by time."""
    what = Path(recipe).stem if verb == "run" else f"{verb}-{Path(recipe).stem}"
    return f"agentmem-{what}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def _relative(recipe: str) -> str:
    """A recipe's file as the job finds it."""
    if not recipe.endswith((".yaml", ".yml")):
        return recipe
    path = Path(recipe).resolve()
    if not path.is_relative_to(Path.cwd()):
        raise ConfigError(
            f"recipe file {recipe}: lies outside the working directory, so it can't be uploaded"
        )
    return str(path.relative_to(Path.cwd()))

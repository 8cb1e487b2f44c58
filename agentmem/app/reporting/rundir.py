"""A run's directory, `<recipe>-<time>-<id>/` under `AGENTMEM_RUNS` (default `./runs`), and how it is found.

The time is UTC (`YYYYMMDD-HHMMSS`); the id is six hex digits, the first three of which are milliseconds, so
that time and id sort by creation and `last` (the newest run of all recipes) is well defined. Members are
paths: only the directories that `create` makes are promised to exist.
"""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agentmem.failures import ConfigError

_NAME = re.compile(r"(?P<recipe>.+)-(?P<time>\d{8}-\d{6})-(?P<id>[0-9a-f]{6})")
_LISTED = 5
"""Runs that an error message names."""


_RAYS_COPY = "/runtime_resources/working_dir_files/"
"""In the path of a job's working directory, which Ray removes when it pleases."""


def runs_base() -> Path:
    """Where runs live: `AGENTMEM_RUNS`, or `./runs`. Raises ConfigError where they would not last."""
    named = Path(os.environ.get("AGENTMEM_RUNS") or "runs")
    if not named.is_absolute() and _RAYS_COPY in f"{Path.cwd()}/":
        raise ConfigError(
            f"runs would go to {named} in Ray's temporary copy of the job's files: set AGENTMEM_RUNS to an "
            "absolute path on a volume that all nodes mount (`agentmem submit --runs`)"
        )
    return named


@dataclass(frozen=True, slots=True)
class RunDir:
    """The directory of one run."""

    path: Path

    @classmethod
    def create(cls, recipe: str, base: Path | None = None) -> RunDir:
        """A new, empty run directory with its subdirectories. Raises ConfigError if it can't be written."""
        base = runs_base() if base is None else base
        while True:
            now = datetime.now(UTC)
            run_id = f"{now.microsecond // 1000:03x}{secrets.token_hex(2)[:3]}"
            path = base.absolute() / f"{recipe}-{now:%Y%m%d-%H%M%S}-{run_id}"
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                if not base.is_dir():
                    raise ConfigError(f"runs go to {base} (AGENTMEM_RUNS): that is no directory") from None
                continue
            except OSError as error:
                raise ConfigError(
                    f"runs go to {base} (AGENTMEM_RUNS): can't write there: {error.strerror}"
                ) from error
            run = cls(path)
            for part in (run.checkpoints, run.replay_dir, run.weights_dir, run.logs):
                part.mkdir()
            return run

    @classmethod
    def find(cls, which: str, base: Path | None = None) -> RunDir:
        """The run named by `last`, by its name, by the six digits at its end, or by a path.

        Raises ConfigError with one line that names what was asked for and what there is.
        """
        base = runs_base() if base is None else base
        names = _newest_first(base)
        if which == "last":
            if not names:
                raise ConfigError(f"there is no last run: {base} (AGENTMEM_RUNS) holds no runs")
            return cls((base / names[0]).absolute())
        matches = [n for n in names if which in (n, n[-6:])]
        if len(matches) > 1:
            raise ConfigError(f"run '{which}' is ambiguous: {', '.join(matches)}")
        if matches:
            return cls((base / matches[0]).absolute())
        path = Path(which)
        if path.is_dir():
            run = cls(path.absolute())
            if _NAME.fullmatch(run.name) or run.config_path.is_file():
                return run
            raise ConfigError(f"{which} is no run: it has no config.yaml")
        more = ", …" if len(names) > _LISTED else ""
        there = f"runs there are {', '.join(names[:_LISTED])}{more}" if names else "it holds no runs"
        raise ConfigError(
            f"run '{which}' not found: neither a directory nor a run in {base} (AGENTMEM_RUNS); "
            f"{there}; 'last' is the newest"
        )

    @property
    def name(self) -> str:
        """`<recipe>-<time>-<id>`."""
        return self.path.name

    @property
    def config_path(self) -> Path:
        """The resolved configuration."""
        return self.path / "config.yaml"

    @property
    def metrics_path(self) -> Path:
        """One line a record (`agentmem.app.reporting.records`)."""
        return self.path / "metrics.jsonl"

    @property
    def trials_path(self) -> Path:
        """One line a trial of an evaluation (`agentmem.evaluation.lines`)."""
        return self.path / "trials.jsonl"

    @property
    def masked_path(self) -> Path:
        """The same of trials played again with a piece of memory hidden."""
        return self.path / "masked.jsonl"

    @property
    def curve_path(self) -> Path:
        """The picture of the learning curve."""
        return self.path / "curve.png"

    @property
    def examples(self) -> Path:
        """Recorded example trials, for `agentmem show`."""
        return self.path / "examples.msgpack"

    @property
    def examples_text(self) -> Path:
        """The same as readable text, written at the end."""
        return self.path / "examples.txt"

    @property
    def checkpoints(self) -> Path:
        """Directory of checkpoints."""
        return self.path / "checkpoints"

    @property
    def final_model(self) -> Path:
        """The trained model in Hugging Face format."""
        return self.path / "final_model"

    @property
    def replay_dir(self) -> Path:
        """Data of the embedded replay server."""
        return self.path / "replay"

    @property
    def weights_dir(self) -> Path:
        """Weights on their way to the engines (transport `files`)."""
        return self.path / "weights"

    @property
    def logs(self) -> Path:
        """Logs of the processes of the run."""
        return self.path / "logs"


def _newest_first(base: Path) -> list[str]:
    """Names of the runs in `base`, newest first."""
    if not base.is_dir():
        return []
    found: list[tuple[str, str, str]] = []
    for entry in base.iterdir():
        match = _NAME.fullmatch(entry.name)
        if match and entry.is_dir():
            found.append((match["time"], match["id"], entry.name))
    return [name for _, _, name in sorted(found, reverse=True)]

"""Jobs of a Ray cluster, over its Jobs API: submit, follow, stop. Every error is one line.

Ray's client reads its authentication from the environment: `RAY_AUTH_MODE`, and the token in `RAY_AUTH_TOKEN`
or the file `RAY_AUTH_TOKEN_PATH`. Without a mode it sends no token, so the mode is set here where a token is
given.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from agentmem.app.jobs.package import Package
from agentmem.app.jobs.submission import Submission
from agentmem.failures import ConfigError, InfrastructureError

T = TypeVar("T")
log = logging.getLogger(__name__)

RETRY_S, RETRY_EVERY_S = 30.0, 1.0
"""A head that has just started refuses jobs for some seconds (status 500: no agent is there yet)."""
POLL_S = 0.5
EARLY = "No available agent"
_UNAUTHORISED = re.compile(r"status code 40[13]\b")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended. `exit_status`: its driver's; 130 for a job that was stopped."""

    status: str
    exit_status: int
    message: str


class Jobs:
    """The Jobs API at an address. Raises ConfigError, InfrastructureError."""

    def __init__(self, address: str) -> None:
        if "@" in urlsplit(address).netloc:
            raise ConfigError(
                f"--address names {urlsplit(address).hostname} with a user or password: a token goes into "
                "RAY_AUTH_TOKEN, or into the file of RAY_AUTH_TOKEN_PATH"
            )
        if urlsplit(address).scheme not in ("http", "https"):
            raise ConfigError(
                f"--address is {address!r}: the address of the cluster's dashboard is needed, such as "
                "http://head:8265"
            )
        self.address = address.rstrip("/")
        choose_authentication(self.address)
        self._client: Any = self._told(self._connected)

    def _connected(self) -> Any:
        from ray.job_submission import JobSubmissionClient

        logging.getLogger("ray").setLevel(logging.WARNING)  # of uploads and sockets nobody asked
        return JobSubmissionClient(self.address)

    def submit(self, job: Submission, files: Package | None, say: Callable[[str], None]) -> str:
        """Start it; its id. `files` None: the nodes have the code."""
        with tempfile.TemporaryDirectory(prefix="am-job-") as made:
            folder = None
            if files is not None and files.files:
                files.check()
                folder = Path(made) / "files"  # its content names it, so the same files are uploaded once
                files.copy_to(folder)
            end, told = time.monotonic() + RETRY_S, False
            while True:
                try:
                    return str(self._told(lambda: self._submitted(job, folder)))
                except InfrastructureError as error:
                    if EARLY not in str(error) or time.monotonic() > end:
                        raise
                    if not told:
                        say("the head has no agent for jobs yet: trying again for up to 30 s")
                        told = True
                time.sleep(RETRY_EVERY_S)

    def _submitted(self, job: Submission, folder: Path | None) -> Any:
        return self._client.submit_job(
            entrypoint=job.command,
            submission_id=job.id,
            runtime_env=job.runtime_env(folder),
            metadata={"program": "agentmem"},
        )

    def stop(self, job: str) -> bool:
        """Ask it to end; False if it had ended. It has its stop time for a last checkpoint."""
        return bool(self._told(lambda: self._client.stop_job(job)))

    def ended(self, job: str) -> Ended | None:
        """How it ended; None while it runs."""
        status = self._told(lambda: self._client.get_job_status(job))
        if not status.is_terminal():
            return None
        info = self._told(lambda: self._client.get_job_info(job))
        code = {"SUCCEEDED": 0, "STOPPED": 130}.get(str(status.value), 1)
        if info.driver_exit_code is not None and str(status.value) != "STOPPED":
            code = int(info.driver_exit_code)
        return Ended(str(status.value), code, " ".join(str(info.message or "").split())[:300])

    def status(self, job: str) -> str:
        """PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED."""
        return str(self._told(lambda: self._client.get_job_status(job)).value)

    def log(self, job: str) -> str:
        """All that it has printed so far."""
        return str(self._told(lambda: self._client.get_job_logs(job)))

    async def follow(self, job: str) -> AsyncIterator[str]:
        """What it prints, from its first line to its end. A lost connection is opened again, without a gap
        or a repetition."""
        seen = 0
        while True:
            skip = seen
            try:
                async for part in self._client.tail_job_logs(job):
                    fresh, skip = part[skip:], max(0, skip - len(part))
                    if fresh:
                        seen += len(fresh)
                        yield fresh
            except Exception as error:  # the client's websocket: many classes, all of them a lost connection
                log.info("output of %s: %s: %s", job, type(error).__name__, error)
            if await asyncio.to_thread(self.ended, job) is not None:
                rest = (await asyncio.to_thread(self.log, job))[seen:]
                if rest:
                    yield rest
                return
            await asyncio.sleep(POLL_S)

    def _told(self, call: Callable[[], T]) -> T:
        """An error of the client in one line."""
        try:
            return call()
        except ImportError as error:
            raise InfrastructureError("Ray's Jobs API needs `pip install 'agentmem[run]'`") from error
        except Exception as error:
            text = " ".join(str(error).split())
            if type(error).__name__ == "AuthenticationError" or _UNAUTHORISED.search(text):
                raise InfrastructureError(
                    f"the cluster at {self.address} wants a token that it knows (RAY_AUTH_MODE is "
                    f"{os.environ.get('RAY_AUTH_MODE') or 'not set'}): set RAY_AUTH_MODE=token and "
                    "RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, as the head has them"
                ) from error
            raise InfrastructureError(
                f"cluster at {self.address}: {type(error).__name__}: {text[:400]}"
            ) from error


def choose_authentication(address: str) -> None:
    """Ray's client sends no token unless it is told the mode. A token that is given is for this cluster; the
    one in the home directory is this machine's, so it goes to this machine alone."""
    if os.environ.get("RAY_AUTH_MODE"):
        return
    given = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    from agentmem.replay.health import is_loopback

    own = (Path.home() / ".ray" / "auth_token").is_file()
    if given or (own and is_loopback(urlsplit(address).hostname or "")):
        os.environ["RAY_AUTH_MODE"] = "token"

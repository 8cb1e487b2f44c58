"""A started `agentmem advise serve`, and how it is asked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

START_S = 240.0


@dataclass
class Service:
    """The process. `line` is what it said when it began to listen."""

    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)
    url: str = ""

    def read(self) -> None:
        """Until it listens, or ends."""
        assert self.process.stdout is not None
        watchdog = threading.Timer(START_S, self.process.kill)
        watchdog.start()
        try:
            for line in self.process.stdout:
                self.said.append(line)
                found = re.search(r"http://\S+", line)
                if found:
                    self.url = found[0]
                    return
        finally:
            watchdog.cancel()
        raise AssertionError("it ended: " + "".join(self.said))

    def ask(self, body: Any, **headers: str) -> tuple[int, dict[str, Any]]:
        """Status and answer of a question; `body` bytes go as they are."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("/v1/advise", raw, **headers)

    def send(self, path: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, Any]]:
        """Status and answer of a request."""
        status, text = self.fetch(path, body, **headers)
        return status, json.loads(text)

    def fetch(self, path: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
        """Status and text of an answer."""
        given = {"Content-Type": "application/json", **headers}
        request = urllib.request.Request(self.url + path, data=body, headers=given)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def end(self) -> None:
        """Whatever happened."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()


def start(*arguments: str, token: str = "") -> Service:
    """`agentmem advise serve ARGUMENTS` on a free port, not listening yet."""
    env = {k: v for k, v in os.environ.items() if k != "AGENTMEM_ADVICE_TOKEN"}
    if token:
        env["AGENTMEM_ADVICE_TOKEN"] = token
    process = subprocess.Popen(
        [sys.executable, "-m", "agentmem", "advise", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
    )
    return Service(process)

"""The embedded replay server inside an actor of its own, and who looks after it.

A child of the driver would die with the first signal that the driver gets, before the last checkpoint. An
actor outlives the signal, and its server ends with it.

Promises: one thread owns the server for the actor's whole life (Linux ends the server with that thread). A
server that has died, or that answers nothing for `ping_timeout_s` (frozen, hung), is ended and started again
on the same data and at the same URL; each time counts as a restart. A spent budget is told by `check`.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from agentmem.failures import BudgetError, ReplayError

log = logging.getLogger(__name__)

LOOK_S = 0.1
"""How often it is asked whether the process is there."""
PING_EVERY_S = 1.0


class ReplayServer:
    """Ray actor (`num_cpus=0`). The server ends with `stop`, or with the actor's process."""

    def __init__(
        self,
        data_dir: str,
        tcp: bool = False,
        *,
        url: str = "",
        budget: int = 0,
        ping_timeout_s: float = 20.0,
    ) -> None:
        """`url`: of an earlier server on this data, to be served again. `budget`: restarts that are left."""
        from agentmem.replay.embedded import EmbeddedServer

        host = None
        if tcp:
            import ray

            host = ray.util.get_node_ip_address()
        self._tcp = tcp
        self._server = EmbeddedServer(Path(data_dir), tcp_host=host, url=url)
        self._budget, self._ping_timeout_s = budget, ping_timeout_s
        self._restarts = 0
        self._failure: Exception | None = None
        self._started, self._end = threading.Event(), threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="replay-server", daemon=True)
        self._keeper.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    def url(self) -> str:
        """For processes of this machine, or of all machines if it was started with `tcp`."""
        return self._server.tcp_url if self._tcp else self._server.url

    def check(self) -> int:
        """Restarts so far. Raises what can't be repaired."""
        if self._failure is not None:
            raise self._failure
        return self._restarts

    def pid(self) -> int:
        """The server's process id."""
        return self._server.pid

    def cpu_s(self) -> float:
        """CPU seconds of the server's process."""
        import psutil

        times = psutil.Process(self._server.pid).cpu_times()
        return float(times.user + times.system)

    def stop(self) -> None:
        """End the server; its data stay in the data directory."""
        self._end.set()
        self._keeper.join(30)

    def _keep(self) -> None:
        try:
            self._server.start()
            self._started.set()
            answered = asked = time.monotonic()
            while not self._end.wait(LOOK_S):
                now = time.monotonic()
                if self._server.alive and now - asked >= PING_EVERY_S:
                    asked = now
                    if self._server.answers(self._ping_timeout_s):
                        answered = time.monotonic()
                if not self._server.alive:
                    self._restart("it died")
                elif now - answered > self._ping_timeout_s:
                    self._restart(f"it didn't answer for {self._ping_timeout_s:g} s")
                else:
                    continue
                answered = asked = time.monotonic()
        except Exception as error:
            self._failure = error
        finally:
            self._started.set()
            self._server.stop()

    def _restart(self, cause: str) -> None:
        if self._restarts >= self._budget:
            raise BudgetError(
                f"replay server: {self._restarts} restarts are spent (supervision.restart_budget); "
                f"last cause: {cause}"
            )
        self._restarts += 1
        began = time.monotonic()
        self._server.kill()
        try:
            self._server.start()
        except ReplayError as error:
            raise ReplayError(f"{cause}, and can't be started again: {error}") from error
        log.warning("replay server: %s; back after %.2f s", cause, time.monotonic() - began)

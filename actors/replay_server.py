"""The embedded replay server inside an actor of its own.

A child of the driver would die with the first signal that the driver gets, before the last checkpoint. An
actor outlives the signal, and its server ends with it.
"""

from __future__ import annotations

from pathlib import Path


class ReplayServer:
    """Ray actor (`num_cpus=0`). The server ends with `stop`, or with the actor's process."""

    def __init__(self, data_dir: str, tcp: bool = False) -> None:
        from agentmem.replay.embedded import EmbeddedServer

        host = None
        if tcp:
            import ray

            host = ray.util.get_node_ip_address()
        self._tcp = tcp
        self._server = EmbeddedServer(Path(data_dir), tcp_host=host)
        self._server.start()

    def url(self) -> str:
        """For processes of this machine, or of all machines if it was started with `tcp`."""
        return self._server.tcp_url if self._tcp else self._server.url

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
        self._server.stop()

"""The env worker: k slots of one environment as a Ray actor. It needs no model package and no replay buffer.

What it promises stands in rollout/env_service.py; this is the Ray side of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.rollout.env_service import EnvService, ServiceStats
from actors.rollout.env_wire import EnvSettings
from agentmem.failures import EnvError

if TYPE_CHECKING:
    from ray.actor import ActorHandle


class EnvWorker:
    """Made a Ray actor by `create`."""

    def __init__(
        self,
        settings: EnvSettings,
        name: str,
        *,
        slots: int,
        step_timeout_s: float,
        start_timeout_s: float = 120.0,
        client_lease_s: float = 60.0,
        memory_limit_mib: float | None = None,
    ) -> None:
        self.name = name
        self._service = EnvService(
            settings,
            slots,
            step_timeout_s=step_timeout_s,
            start_timeout_s=start_timeout_s,
            client_lease_s=client_lease_s,
            memory_limit_mib=memory_limit_mib,
        )

    async def exchange(self, client: str, calls: bytes) -> bytes:
        """A batch of calls in, all answers that are ready out."""
        return await self._service.exchange(client, calls)

    async def stats(self) -> ServiceStats:
        """Counters and gauges."""
        return self._service.stats()

    async def forget(self, client: str) -> int:
        """Take back the slots of an agent that is known to be dead."""
        return self._service.forget(client)

    async def host_pids(self) -> list[int]:
        """The processes that hold its environments."""
        return self._service.host_pids()

    async def ping(self) -> None:
        """Answers if the event loop does."""

    async def close(self) -> None:
        """End all environments, bounded."""
        await self._service.close()


class RayWorker:
    """The way to an `EnvWorker` from an agent."""

    def __init__(self, handle: ActorHandle, slots: int) -> None:
        self.slots = slots
        self._handle = handle

    async def exchange(self, client: str, calls: bytes) -> bytes:
        """See EnvWorker. Raises EnvError when the actor is gone."""
        from ray.exceptions import RayError, RayTaskError

        try:
            answers: bytes = await self._handle.exchange.remote(client, calls)
        except RayTaskError:  # raised by the worker's own code: a bug
            raise
        except RayError as error:
            reason = str(error).strip().splitlines()[0]
            raise EnvError(f"env worker is lost: {type(error).__name__}: {reason}") from error
        return answers


def create(
    settings: EnvSettings,
    name: str,
    *,
    slots: int,
    step_timeout_s: float,
    start_timeout_s: float = 120.0,
    memory_limit_mib: float | None = None,
    **options: Any,
) -> ActorHandle:
    """Make the Ray actor. `options` are Ray's, as `num_cpus`, `resources` or `runtime_env`."""
    import ray

    defaults: dict[str, Any] = {"num_cpus": 0, "max_concurrency": 1000}
    actor = ray.remote(EnvWorker).options(**{**defaults, **options})
    return actor.remote(
        settings,
        name,
        slots=slots,
        step_timeout_s=step_timeout_s,
        start_timeout_s=start_timeout_s,
        memory_limit_mib=memory_limit_mib,
    )

"""Ray calls from asyncio, each with a deadline and with typed errors."""

from __future__ import annotations

import asyncio
from typing import Any

from agentmem.failures import AgentMemError, InfrastructureError


async def answer(ref: Any, who: str, seconds: float | None) -> Any:
    """The value of a Ray call. A dead or silent actor is an InfrastructureError; what the actor itself raised
    is raised."""
    import ray

    try:
        return await asyncio.wait_for(asyncio.wrap_future(ref.future()), seconds)
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, AgentMemError) else error from None
    except ray.exceptions.RayError as error:
        reason = " ".join(str(error).split())[:200]
        raise InfrastructureError(f"{who} is gone: {type(error).__name__}: {reason}") from error
    except TimeoutError:
        raise InfrastructureError(f"{who} didn't answer within {seconds:g} s") from None


def kill(handle: Any) -> None:
    """End an actor at once; harmless if it is dead."""
    import ray

    ray.kill(handle, no_restart=True)

"""Ray calls from asyncio, each with a deadline and with typed errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from agentmem.failures import AgentMemError, InfrastructureError

PING_EVERY_S = 2.0


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


async def pong(ref: Any, who: str, seconds: float) -> Any:
    """Like `answer`, but only time in which this process ran counts: one that was frozen itself (SIGSTOP, a
    suspended machine) finds late answers when it wakes, and accuses nobody."""
    call = asyncio.ensure_future(answer(ref, who, None))
    left, slice_s = seconds, min(1.0, seconds / 10)
    try:
        while left > 0:
            began = time.monotonic()
            done, _ = await asyncio.wait([call], timeout=slice_s)
            if done:
                return call.result()
            left -= min(time.monotonic() - began, 2 * slice_s)
    finally:
        call.cancel()
    raise InfrastructureError(f"{who} answered no ping for {seconds:g} s")


async def watched(
    ref: Any, ping: Callable[[], Any], who: str, seconds: float | None, ping_timeout_s: float
) -> Any:
    """Like `answer`, for a call that may take long: while it lasts, the actor must answer pings in time."""
    call = asyncio.ensure_future(answer(ref, who, seconds))
    try:
        while True:
            done, _ = await asyncio.wait([call], timeout=PING_EVERY_S)
            if done:
                return call.result()
            alive = asyncio.ensure_future(pong(ping(), who, ping_timeout_s))
            try:
                done, _ = await asyncio.wait([call, alive], return_when=asyncio.FIRST_COMPLETED)
                if call not in done:
                    alive.result()
            finally:
                alive.cancel()
    finally:
        call.cancel()


def kill(handle: Any) -> None:
    """End an actor at once; harmless if it is dead. A frozen process (SIGSTOP) ends after 5 s, by SIGKILL."""
    import ray

    ray.kill(handle, no_restart=True)

"""Futures that another thread settles, and work that may hang for ever without holding anybody up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def succeed(future: asyncio.Future[T], value: T) -> None:
    """Set a result unless nobody waits any more (deadline, cancellation)."""
    if not future.done():
        future.set_result(value)


def refuse(future: asyncio.Future[T], error: BaseException) -> None:
    """Set an exception unless nobody waits any more."""
    if not future.done():
        future.set_exception(error)


def post(loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> None:
    """Run `work` in the loop. A loop that is closed has no one waiting: the process ends."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(work)


async def aside(work: Callable[[], T], seconds: float, name: str) -> T:
    """Run `work` on a thread of its own. `TimeoutError` at the deadline; the thread is then left alone, and
    what it returns is dropped."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except Exception as error:
            post(loop, partial(refuse, future, error))
        else:
            post(loop, partial(succeed, future, result))

    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.wait_for(future, seconds)

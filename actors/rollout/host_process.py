"""One host process as its worker sees it: calls in, answers out, a deadline for each call.

Invariants:
- Calls are answered in order; the deadline of a call starts when the one before it is answered.
- When a deadline passes or the process ends, every outstanding call gets an infrastructure failure, `dead` is
  set, and the process is killed (a hang can't be interrupted in any other way) with all that it has started.
  It is never used again.
- `answered` is called once for each call, from the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import uuid
from collections import deque
from collections.abc import Callable

import msgspec

from actors.rollout.env_host import frame
from actors.rollout.env_wire import Answer, Call, EnvSettings, encode, failed
from actors.rollout.process_tree import MARK, end_all, end_marked, family
from agentmem.failures import Failure, FailureKind
from envs.memory import tree_mib
from envs.options import EnvSetupError

Answered = Callable[[Call, Answer], None]

_answer = msgspec.msgpack.Decoder(Answer)


class HostProcess:
    """See the module's docstring. Made within a running event loop."""

    def __init__(self, settings: EnvSettings, answered: Answered) -> None:
        self.dead = ""
        """Why it is of no more use; empty while it lives."""
        self.hung = False
        """It was killed because a deadline had passed."""
        self.counted = False
        """Its end was counted (by its worker)."""
        self.slots: set[int] = set()
        """Slots of it that have been reset once (their next reset is no start)."""
        self._name, self._answered = settings.name, answered
        self._settings = settings
        self._mark = uuid.uuid4().hex
        self._outstanding: deque[tuple[Call, float]] = deque()
        self._unsent: list[bytes] = [frame(msgspec.msgpack.encode(settings))]
        self._process: asyncio.subprocess.Process | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._life = self._loop.create_task(self._live())

    @property
    def pid(self) -> int | None:
        """Process id, None before it is started."""
        return self._process.pid if self._process else None

    @property
    def ended(self) -> bool:
        """The process is gone."""
        return self._life.done()

    async def memory_mib(self) -> float:
        """Of the process and all that it has started; what they share counts once."""
        if self.pid is None or self.dead:
            return 0.0
        return await asyncio.to_thread(tree_mib, self.pid)

    def send(self, call: Call, deadline_s: float) -> None:
        """Ask for one call, to be answered within `deadline_s` of when it is begun."""
        self._outstanding.append((call, deadline_s))
        if len(self._outstanding) == 1:
            self._watch()
        data = frame(encode(call))
        if self._process is None or self._process.stdin is None:
            self._unsent.append(data)
        else:
            self._process.stdin.write(data)

    def kill(self, why: str) -> None:
        """End it now; outstanding calls fail with `why`. Idempotent."""
        if self.dead:
            return
        self.dead = why
        if self._timer is not None:
            self._timer.cancel()
        if self._process is not None and self._process.returncode is None:
            # A light environment starts nothing, and is held by one process with many others.
            below = [] if self._settings.light else family(self._process.pid)
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            end_all(below)
        while self._outstanding:
            call, _ = self._outstanding.popleft()
            failure = Failure(kind=FailureKind.INFRASTRUCTURE, what=f"EnvError: {why}", where=self._name)
            self._answered(call, failed(call.id, failure))

    async def close(self, timeout_s: float) -> None:
        """Let the environments end themselves; kill the process if they don't within `timeout_s`."""
        if self._process is not None and self._process.stdin is not None and not self.dead:
            self._process.stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), timeout_s)
        self.kill("closed")
        await self._life

    async def _live(self) -> None:
        try:
            python = self._settings.python()
            self._process = process = await asyncio.create_subprocess_exec(
                python,
                "-m",
                "actors.rollout.env_host",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                # In the worker's own process group, so that whatever ends the worker's group ends it, too.
                env={**_surroundings(foreign=python != sys.executable), MARK: self._mark},
            )
        except (OSError, EnvSetupError) as error:
            self.kill(f"environment {self._name}: its process can't be started: {error}")
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(self._unsent))
        self._unsent.clear()
        if self.dead:  # killed while it was being started
            process.kill()
        read = process.stdout.readexactly
        # The pipe ends when the process does, whatever ended it.
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await read(4)
                self._take(_answer.decode(await read(int.from_bytes(head, "big"))))
        code = await process.wait()
        self.kill(f"environment {self._name}: its process ended with exit code {code}")
        if not self._settings.light:
            await asyncio.to_thread(end_marked, self._mark)

    def _take(self, answer: Answer) -> None:
        if self.dead:
            return
        call, _ = self._outstanding.popleft()
        self._watch()
        self._answered(call, answer)

    def _watch(self) -> None:
        """Start the clock of the call that is now at work."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._outstanding:
            call, deadline_s = self._outstanding[0]
            self._timer = self._loop.call_later(deadline_s, self._late, call, deadline_s)

    def _late(self, call: Call, deadline_s: float) -> None:
        self.hung = True
        self.kill(f"environment {self._name}: {call.op} took longer than {deadline_s:g} s")


def _surroundings(*, foreign: bool) -> dict[str, str]:
    """The environment variables of a host process. Another Python has packages of its own."""
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1"}
    if not foreign:
        surroundings["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    return surroundings

"""The live parts that arms are played with: one system at a time, with or without a memory policy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.app.evaluation.arms.asking import Seen, task_of
from agentmem.app.evaluation.evaluate import POLL_S, play
from agentmem.config import RunConfig
from agentmem.trajectory import Mode, Ticket, Trial, Turn

if TYPE_CHECKING:
    from actors.advice_client import AdviceClient
    from agentmem.app.live.session import Session
    from agentmem.app.live.system import System
    from agentmem.app.live.watch import Watch
    from agentmem.app.reporting.rundir import RunDir


@dataclass(slots=True)
class Parts:
    """A running system."""

    config: RunConfig
    live: Session
    system: System
    watch: Watch
    client: AdviceClient | None = None
    """Of the generators; None without a memory policy."""

    async def play(self, tickets: Sequence[Ticket], text: str, before: int, total: int) -> list[Trial]:
        """The trials that didn't fail. `before`: how many of `total` are done, for the view."""

        async def tick(done: int, _: int) -> None:
            self.live.view.phase(text, before + done, total)
            await self.watch.look()

        return await play(self.config, self.system.buffer, tickets, tickets[0].task.group, tick)

    async def ask(self, situations: Sequence[Seen], branch: str) -> list[Turn]:
        """The memory policy's turn on each. Raises what the watch raises."""
        from actors.rollout.advice import AgentAdvice
        from actors.rollout.env_wire import EnvSettings
        from actors.rollout.protocols import Situation

        assert self.client is not None
        env = self.config.env
        style = EnvSettings.named(env.name, env.options, env.prompting).style()
        shared = AgentAdvice(self.client, env.name, style)
        mode = Mode(method=self.config.method, advice=branch)
        questions = []
        for n, seen in enumerate(situations):
            ticket = Ticket(id=f"ask-{n}", task=task_of(env.name, seen), member=0, mode=mode)
            advisor = shared.of(ticket)
            assert advisor is not None  # the mode asks for advice
            situation = Situation(seen.observation, None, seen.instruction)
            questions.append(advisor.advise(situation))
        answers = asyncio.gather(*questions)
        try:
            while not answers.done():
                self._follow_generators()
                await self.watch.look()
                await asyncio.wait({answers}, timeout=POLL_S)
            return await answers
        finally:
            answers.cancel()

    def _follow_generators(self) -> None:
        """The client knows those that live now."""
        from actors.batch_client import RayReplica
        from actors.fleet import Role

        assert self.client is not None
        handles = self.system.fleet.handles(Role.GENERATOR)
        self.client.set_replicas({name: RayReplica(handle) for name, handle in handles.items()})


@asynccontextmanager
async def running(
    config: RunConfig, run: RunDir, live: Session, models: Mapping[str, Path]
) -> AsyncIterator[Parts]:
    """A system for the time of the context."""
    from actors.advice_client import AdviceClient
    from agentmem.app.live.monitor import Monitor
    from agentmem.app.live.system import System
    from agentmem.app.live.watch import Watch

    system = System(config, run, models, learns=False)
    monitor = Monitor(system, live.metrics, live.view)
    watch = Watch(
        config, system, monitor, live.flag, lambda what, detail: live.view.note(f"{what}: {detail}")
    )
    parts = Parts(config, live, system, watch)
    if config.advised:
        parts.client = AdviceClient({}, timeout_s=config.advice.timeout_s)
    try:
        await watch.guard(system.start(live.view.phase))
        yield parts
    finally:
        live.view.phase("closing")
        if parts.client is not None:
            await parts.client.close()
        await watch.close()
        await system.close(config.supervision.drain_timeout_s)

"""Env workers, agent actors and memory-policy generators of a run: as many as desired, whatever happens to
them.

- `start` brings up all of them and raises the first error. From then on `supervise`, called every few
  seconds, notices who is dead or silent and starts replacements without waiting for them.
- A replacement costs one restart of its role's budget. A spent budget raises BudgetError with the last cause;
  a cause that a restart can't mend (a data failure, a bug) is raised as it is.
- `scale` changes the desired numbers at any time. An agent that leaves drains first; an env worker that
  leaves gets no new trials and is ended when its last one is over, or after `scaling.drain_s`. Newcomers that
  don't come leave the old numbers standing, and cost no restart.
- What a generator that dies or leaves was asked, its askers ask another.
- A dead agent's leases and env slots are given up at once, so its trials go on elsewhere without delay.

All methods run in one event loop, the driver's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from actors import agent, env_worker, generator
from actors.agent_settings import AgentSettings
from actors.generator import GeneratorSettings
from actors.ray_calls import answer, kill, pong
from actors.reconcile import Member, State, reconcile
from actors.rollout.advising import AdvisingStats
from actors.rollout.agent_stats import AgentStats
from actors.rollout.env_service import ServiceStats
from agentmem.config import RunConfig
from agentmem.failures import BudgetError, Failure, InfrastructureError, ResourceError
from agentmem.replay import ReplayBuffer

log = logging.getLogger(__name__)

START_S = 120.0
"""Until a new actor has its process, its imports and its tokenizer."""
STATS_S = 5.0
END_S = 4.0
"""What a member may take beyond its drain to give things back, before it is killed."""


class Role(StrEnum):
    """What the fleet is made of."""

    ENV_WORKER = "env_worker"
    AGENT = "agent"
    GENERATOR = "generator"
    """Of the memory policy (Mem-π)."""


@dataclass(eq=False, slots=True)
class _Live:
    """One actor, from its start to its end."""

    name: str
    handle: Any
    state: State = State.STARTING
    cause: BaseException | None = None
    life: asyncio.Task[None] | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    """It is running, or dead."""
    newcomer: bool = False
    """`scale` waits for it: its death before it runs is `scale`'s to tell, not to be repaired."""

    def die(self, cause: BaseException) -> None:
        if self.state in (State.STARTING, State.RUNNING):
            self.state, self.cause = State.DEAD, cause
        self.ready.set()


class Fleet:
    """See the module's docstring. `ray_options` are Ray's own, by role (`resources`, `runtime_env`, …)."""

    def __init__(
        self,
        config: RunConfig,
        settings: AgentSettings,
        *,
        generators: GeneratorSettings | None = None,
        ray_options: dict[Role, dict[str, Any]] | None = None,
    ) -> None:
        self._env, self._settings, self._generating = config.env, settings, generators
        self._budget = config.supervision.restart_budget
        self._drain_s = config.scaling.drain_s
        self._start_s = START_S + config.scaling.machine_wait_s
        # A member that answers no ping for so long is dead: its event loop does nothing heavy.
        self._ping_s = config.supervision.ping_timeout_s
        self._options = dict(ray_options or {})
        self._desired = {
            Role.ENV_WORKER: config.env.workers if config.env.placement == "worker" else 0,
            Role.AGENT: config.agents.replicas,
            Role.GENERATOR: config.generators.replicas if generators is not None else 0,
        }
        self._members: dict[Role, list[_Live]] = {role: [] for role in Role}
        self._made = dict.fromkeys(Role, 0)
        self._restarts = dict.fromkeys(Role, 0)
        self._engines: dict[str, dict[str, Any]] = {}
        """By policy, then by name."""
        self._ending: set[asyncio.Task[None]] = set()
        self._buffer: ReplayBuffer | None = None

    async def start(self) -> None:
        """Bring up all members. Raises the first error; `close` is still needed then."""
        self._reconcile()
        await self._until_ready()

    async def supervise(self) -> None:
        """One look at everybody. Raises what can't be repaired."""
        await asyncio.gather(*(self._look_at(each) for each in self._all(State.RUNNING)))
        self._reconcile()

    async def scale(
        self, *, env_workers: int | None = None, agents: int | None = None, generators: int | None = None
    ) -> None:
        """Change the desired numbers, and wait until newcomers are up. On an error the old numbers stand."""
        wanted = {Role.ENV_WORKER: env_workers, Role.AGENT: agents, Role.GENERATOR: generators}
        before = {role: self._desired[role] for role, number in wanted.items() if number is not None}
        if env_workers is not None and self._settings.placement == "local":
            raise ResourceError("env.placement is 'local': there are no env workers to scale")
        if generators is not None and self._generating is None:
            raise ResourceError(
                "no memory policy advises this run's agents: there are no generators to scale"
            )
        self._desired |= {role: number for role, number in wanted.items() if number is not None}
        there = self._all()
        self._reconcile()
        newcomers = [member for member in self._all() if member not in there]
        for member in newcomers:
            member.newcomer = True
        try:
            await self._until_ready(newcomers)
        except Exception:
            self._desired |= before
            for role in before:  # those that failed to come aren't missed
                for member in [m for m in self._members[role] if m.newcomer and m.state is State.DEAD]:
                    kill(member.handle)
                    self._members[role].remove(member)
            raise
        finally:
            for member in newcomers:
                member.newcomer = False

    async def set_engines(self, engines: dict[str, Any], policy: str = "agent") -> None:
        """The engines of a policy from now on, by name: agents use those of theirs, generators the others."""
        self._engines[policy] = dict(engines)
        await self._configure()

    def size(self) -> dict[str, int]:
        """Members that are running, by role."""
        return {
            role.value: sum(m.state is State.RUNNING for m in self._members[role]) for role in self._roles()
        }

    def desired(self) -> dict[str, int]:
        """Members that there shall be, by role."""
        return {role.value: self._desired[role] for role in self._roles()}

    def leaving(self) -> dict[str, int]:
        """Members that are on their way out, by role."""
        return {
            role.value: sum(m.state is State.STOPPING for m in self._members[role]) for role in self._roles()
        }

    def restarts(self) -> dict[str, int]:
        """Restarts so far, by role."""
        return {role.value: self._restarts[role] for role in self._roles()}

    def handles(self, role: Role) -> dict[str, Any]:
        """Actor handles of the running members."""
        return {m.name: m.handle for m in self._members[role] if m.state is State.RUNNING}

    async def agent_stats(self) -> list[AgentStats]:
        """Of the agents that answer."""
        return await self._stats(Role.AGENT, AgentStats)

    async def worker_stats(self) -> list[ServiceStats]:
        """Of the env workers that answer."""
        return await self._stats(Role.ENV_WORKER, ServiceStats)

    async def generator_stats(self) -> list[AdvisingStats]:
        """Of the generators that answer."""
        return await self._stats(Role.GENERATOR, AdvisingStats)

    async def close(self, drain_s: float) -> None:
        """Drain agents for at most `drain_s`, then end everything: within `drain_s` and twice `END_S`."""
        self._desired = dict.fromkeys(Role, 0)
        await asyncio.gather(*(self._end_agent(each, drain_s) for each in self._members[Role.AGENT]))
        await asyncio.gather(*(self._end_worker(each, 0.0) for each in self._members[Role.ENV_WORKER]))
        for each in self._members[Role.GENERATOR]:
            each.state = State.STOPPING
        for task in self._ending:
            task.cancel()
        for member in self._all():
            if member.life is not None:
                member.life.cancel()
            kill(member.handle)
        self._members = {role: [] for role in Role}
        if self._buffer is not None:
            self._buffer.close()

    # --- who is there

    def _roles(self) -> list[Role]:
        """Those that this run has."""
        return [role for role in Role if role is not Role.GENERATOR or self._generating is not None]

    def _all(self, state: State | None = None) -> list[_Live]:
        return [m for members in self._members.values() for m in members if state in (None, m.state)]

    async def _look_at(self, member: _Live) -> None:
        try:
            await pong(member.handle.ping.remote(), member.name, self._ping_s)
        except Exception as error:
            member.die(error)

    def _reconcile(self) -> None:
        """Make what is there agree with what is desired; starts and stops go on in the background."""
        for role in Role:
            members = self._members[role]
            plan = reconcile(
                self._desired[role],
                [Member(m.name, _seen(m), _line(m.cause)) for m in members],
                restarts=self._restarts[role],
                budget=self._budget,
            )
            for member in [m for m in members if m.name in plan.remove]:
                self._remove(role, member)
            if plan.exhausted:
                raise BudgetError(
                    f"{role}: {self._restarts[role]} restarts are spent (supervision.restart_budget is "
                    f"{self._budget}); last cause: {plan.exhausted}"
                )
            self._restarts[role] += plan.restarts
            for _ in range(plan.start):
                self._start_one(role)
            for member in [m for m in members if m.name in plan.stop]:
                member.state = State.STOPPING
                self._background(self._retire(role, member))

    def _start_one(self, role: Role) -> None:
        name = f"{role}-{self._made[role]}".replace("_", "-")
        self._made[role] += 1
        options = {"num_cpus": 1, **self._options.get(role, {})}
        if role is Role.AGENT:
            member = _Live(name, agent.create(self._settings, name, **options))
            member.life = asyncio.create_task(self._live_agent(member))
        elif role is Role.GENERATOR:
            assert self._generating is not None
            member = _Live(name, generator.create(self._generating, name, **options))
            member.life = asyncio.create_task(self._live_generator(member))
        else:
            env = self._env
            handle = env_worker.create(
                self._settings.env,
                name,
                slots=env.slots_per_worker,
                step_timeout_s=env.step_timeout_s,
                start_timeout_s=env.start_timeout_s,
                memory_limit_mib=env.memory_limit_mib,
                **options,
            )
            member = _Live(name, handle)
            member.life = asyncio.create_task(self._live_worker(member))
        self._members[role].append(member)

    def _remove(self, role: Role, member: _Live) -> None:
        cause = member.cause
        self._members[role].remove(member)
        kill(member.handle)
        log.warning("%s is dead: %s", member.name, _line(cause))
        if role is Role.AGENT:
            self._background(self._forfeit(member.name))
        else:
            self._background(self._configure())
        if cause is not None and not isinstance(cause, InfrastructureError):
            raise cause

    # --- lives

    async def _live_agent(self, member: _Live) -> None:
        """Up to its end, which is its death unless it was asked for."""
        try:
            await self._started(member, member.handle.start.remote())
            await answer(self._configuration(member, Role.AGENT), member.name, self._ping_s)
            member.state = State.RUNNING
            member.ready.set()
            await answer(member.handle.run.remote(), member.name, None)
            member.die(InfrastructureError(f"{member.name} ended by itself"))
        except Exception as error:
            member.die(error)

    async def _live_worker(self, member: _Live) -> None:
        try:
            await self._started(member, member.handle.ping.remote())
        except Exception as error:
            member.die(error)
            return
        member.state = State.RUNNING
        member.ready.set()
        await self._configure()

    async def _live_generator(self, member: _Live) -> None:
        try:
            await self._started(member, member.handle.start.remote())
            await answer(self._configuration(member, Role.GENERATOR), member.name, self._ping_s)
        except Exception as error:
            member.die(error)
            return
        member.state = State.RUNNING
        member.ready.set()
        await self._configure()

    async def _started(self, member: _Live, ref: Any) -> None:
        import ray

        try:
            await asyncio.wait_for(asyncio.wrap_future(ref.future()), self._start_s)
        except TimeoutError:
            free = ", ".join(f"{amount:g} {name}" for name, amount in ray.available_resources().items())
            raise ResourceError(
                f"{member.name} couldn't be placed or started within {self._start_s:g} s; free are: {free}"
            ) from None
        except ray.exceptions.RayError:
            await answer(ref, member.name, self._ping_s)  # typed

    async def _until_ready(self, starting: list[_Live] | None = None) -> None:
        """Wait for those (else for all that are being started); raise the first error among them."""
        starting = self._all(State.STARTING) if starting is None else starting
        await asyncio.gather(*(m.ready.wait() for m in starting))
        for member in starting:
            if member.cause is not None:
                raise member.cause

    # --- configuration

    def _configuration(self, member: _Live, role: Role) -> Any:
        if role is Role.GENERATOR:
            return member.handle.configure.remote(self._engines.get("memory", {}))
        slots = self._env.slots_per_worker
        workers = {name: (handle, slots) for name, handle in self.handles(Role.ENV_WORKER).items()}
        return member.handle.configure.remote(
            self._engines.get("agent", {}), workers, self.handles(Role.GENERATOR)
        )

    async def _configure(self) -> None:
        """Tell all running agents and generators. Who doesn't hear it is dead: `supervise` finds out."""

        async def tell(member: _Live, role: Role) -> None:
            with contextlib.suppress(InfrastructureError):
                await answer(self._configuration(member, role), member.name, self._ping_s)

        told = [
            (member, role)
            for role in (Role.GENERATOR, Role.AGENT)
            for member in self._members[role]
            if member.state in (State.RUNNING, State.STOPPING)
        ]
        await asyncio.gather(*(tell(member, role) for member, role in told))

    async def _stats(self, role: Role, kind: type[Any]) -> list[Any]:
        refs = [(name, handle.stats.remote()) for name, handle in self.handles(role).items()]
        answers = await asyncio.gather(
            *(answer(ref, name, STATS_S) for name, ref in refs), return_exceptions=True
        )
        return [stats for stats in answers if isinstance(stats, kind)]

    # --- ends

    async def _retire(self, role: Role, member: _Live) -> None:
        if role is Role.AGENT:
            await self._end_agent(member, self._drain_s)
        else:
            await self._configure()  # no new trials, no new questions
            if role is Role.ENV_WORKER:
                await self._end_worker(member, self._drain_s)
            else:
                kill(member.handle)
        self._members[role].remove(member)

    async def _end_agent(self, member: _Live, drain_s: float) -> None:
        if member.ready.is_set() and member.state is not State.DEAD:
            member.state = State.STOPPING
            with contextlib.suppress(InfrastructureError):
                await answer(member.handle.drain.remote(drain_s), member.name, drain_s + END_S)
        member.state = State.STOPPING
        kill(member.handle)

    async def _end_worker(self, member: _Live, drain_s: float) -> None:
        member.state = State.STOPPING
        end = asyncio.get_running_loop().time() + drain_s
        with contextlib.suppress(InfrastructureError):
            while asyncio.get_running_loop().time() < end:
                stats = await answer(member.handle.stats.remote(), member.name, STATS_S)
                if stats.busy == 0 and stats.waiting == 0:
                    break
                await asyncio.sleep(0.1)
            await answer(member.handle.close.remote(), member.name, END_S)
        kill(member.handle)

    async def _forfeit(self, name: str) -> None:
        """What a dead agent held is free at once."""
        if self._buffer is None:
            settings = self._settings
            self._buffer = await asyncio.to_thread(
                ReplayBuffer,
                settings.replay_url,
                settings.run,
                settings=settings.replay,
                deadline_s=settings.replay_reconnect_s,
            )
        await asyncio.to_thread(self._buffer.forfeit, name)
        with contextlib.suppress(InfrastructureError):
            for worker, handle in self.handles(Role.ENV_WORKER).items():
                await answer(handle.forget.remote(name), worker, self._ping_s)

    def _background(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._ending.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # A convenience failed (an early release of leases): leases run out by themselves.
            log.warning("fleet: %s", _line(error))


def _seen(member: _Live) -> State:
    """As reconciliation sees it: a newcomer that died on its way is still waited for."""
    return State.STARTING if member.newcomer and member.state is State.DEAD else member.state


def _line(error: BaseException | None) -> str:
    return "" if error is None else Failure.of(error).what.splitlines()[0]

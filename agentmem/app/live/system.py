"""The live parts of a run: Ray, replay server, engines, learner group, agents and env workers.

`System.start` brings them up from the ground, each with its own deadline, and `close` takes them down, also
after a start that failed half-way. What can't work (resources, model, server) is refused before anything
large is started.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from actors.agent_settings import AgentSettings
from actors.engine.pool import EnginePool
from actors.engine.protocol import EngineConfig, EngineStats
from actors.fleet import Fleet, Role
from actors.generator import GeneratorSettings
from actors.parts import ENGINES, LEARNER, parts_of, scalable, sized
from actors.placement import Request, ask_autoscaler, find_room
from actors.ray_calls import answer, kill, pong
from actors.replay_server import ReplayServer
from agentmem.app.live.joining import Phase, alone, resources
from agentmem.app.reporting.run_buffer import with_password
from agentmem.app.reporting.rundir import RunDir
from agentmem.config import RunConfig
from agentmem.failures import BudgetError, InfrastructureError, ReplayError, ResourceError
from agentmem.replay import ReplayBuffer
from agentmem.replay import Settings as ReplaySettings
from agentmem.weights.base import WeightUpdate
from learner.checkpoint import newest
from learner.group import LearnerError, LearnerGroup
from learner.settings import RankSettings

log = logging.getLogger(__name__)

REPLAY_START_S = 90.0
CPU_BLOCK = 32
"""Tokens of a KV-cache block of engines on CPUs."""


@dataclass(slots=True)
class System:
    """All parts of one run. Its methods run in the driver's event loop."""

    config: RunConfig
    run: RunDir
    models: Mapping[str, Path]
    """Directory of the model of each policy that is served here."""
    learns: bool = True
    """Whether there is a learner; an evaluation has none."""
    buffer: ReplayBuffer = field(init=False)
    pools: dict[str, EnginePool] = field(init=False)
    """The engines of each policy that is served here."""
    learner: LearnerGroup = field(init=False)
    fleet: Fleet = field(init=False)
    learner_restarts: int = field(default=0, init=False)
    lost_learner: LearnerError | None = field(default=None, init=False)
    """A rank is dead or frozen, which `restart_learner` mends."""
    _closing: threading.Event = field(default_factory=threading.Event, init=False)
    _restarting_learner: bool = field(default=False, init=False)
    _server: Any = field(default=None, init=False)
    _server_url: str = field(default="", init=False)
    _server_restarts: list[int] = field(default_factory=lambda: [0], init=False)
    """Of each server actor so far, the present one last; each actor but the first counts as one itself."""
    started: list[str] = field(default_factory=list, init=False)
    """Parts that are up, or may be: what `close` has to end."""

    async def start(self, phase: Phase, checkpoint: Path | None = None) -> None:
        """Start everything. `checkpoint`: what the learner goes on from."""
        phase("starting the replay buffer")
        url = await asyncio.to_thread(self._replay_url)
        settings = replay_settings(self.config)
        self.buffer = await asyncio.to_thread(
            ReplayBuffer, url, self.run.name, settings=settings, deadline_s=self.config.replay.reconnect_s
        )
        self.started.append("buffer")
        # Nobody plays yet: what is claimed was claimed under a driver that is dead.
        await asyncio.to_thread(self.buffer.recall)
        config = await self._wished(phase)
        phase("starting engines and learner" if self.learns else "starting engines")
        self.pools = {policy: self._engine_pool(config, policy) for policy in config.served}
        self.started.append("engines")
        starting: list[Any] = [pool.start() for pool in self.pools.values()]
        if self.learns:
            starting.append(asyncio.to_thread(self._start_learner, checkpoint))
        await _all(*starting)
        phase("starting agents")
        agent_settings = AgentSettings.of(
            self.config,
            run=self.run.name,
            replay_url=url,
            replay=settings,
            model=str(self.models.get("agent", "")),
        )
        generators = None
        if self.config.advised:
            generators = GeneratorSettings.of(self.config, model=str(self.models["memory"]))
        options = {
            role: parts_of(config)[kind].options(alone=alone()) for role, kind in self._roles().items()
        }
        self.fleet = Fleet(config, agent_settings, generators=generators, ray_options=options)
        self.started.append("fleet")
        await self.fleet.start()
        for policy, pool in self.pools.items():
            await self.offer_engines(policy, pool.live)

    async def _wished(self, phase: Phase) -> RunConfig:
        """The configuration with the numbers that were wished for while an earlier driver ran. Where there
        is no room for them, the scaler will say so."""
        configured = scalable(self.config)
        for kind in await asyncio.to_thread(self.buffer.configured, configured):
            log.info("scale: the wish for %s is over: another number is configured now", kind)
        wishes = await asyncio.to_thread(self.buffer.wishes)
        config = sized(self.config, wishes.numbers)
        if not alone() and scalable(config) != configured:
            try:
                await self.find_room(resources(config, learns=self.learns), scalable(config), phase)
            except ResourceError as error:
                log.warning("scale: started as configured, since %s", error)
                return self.config
        return config

    async def find_room(
        self,
        new: Sequence[Request],
        sizes: Mapping[str, int],
        say: Phase,
        stop: threading.Event | None = None,
    ) -> None:
        """Return when parts can be placed that make the run have these sizes. Raises ResourceError, also if
        `stop` is set meanwhile."""

        def pause(seconds: float) -> None:
            if self._closing.wait(seconds) or (stop is not None and stop.is_set()):
                raise ResourceError("nobody waits for room any more")

        in_all = resources(sized(self.config, sizes), learns=self.learns)
        wait_s = self.config.scaling.machine_wait_s
        await asyncio.to_thread(find_room, new, in_all, machine_wait_s=wait_s, say=say, pause=pause)

    async def scale(self, kind: str, number: int) -> None:
        """Change the number of a kind of part, and wait until newcomers are up; who leaves does so behind.
        Raises what kept newcomers away; then the old number stands."""
        if kind.startswith(ENGINES):
            policy = kind.removeprefix(ENGINES)
            await self.pools[policy].scale(number, partial(self.offer_engines, policy))
        else:
            await self.fleet.scale(**{kind.replace("-", "_"): number})
        if self.config.scaling.machine_wait_s > 0 and not alone():
            in_all = resources(sized(self.config, self.desired()), learns=self.learns)
            await asyncio.to_thread(ask_autoscaler, in_all)  # it gives back what isn't wanted any more

    def desired(self) -> dict[str, int]:
        """How many there shall be of each kind of part."""
        fleet = self.fleet.desired()
        engines = {ENGINES + policy: pool.desired for policy, pool in self.pools.items()}
        return {**engines, **{kind: fleet[role.value] for role, kind in self._roles().items()}}

    def running(self) -> dict[str, int]:
        """How many there are."""
        fleet = self.fleet.size()
        engines = {ENGINES + policy: len(pool.live) for policy, pool in self.pools.items()}
        return {**engines, **{kind: fleet[role.value] for role, kind in self._roles().items()}}

    def leaving(self) -> dict[str, int]:
        """How many are on their way out."""
        fleet = self.fleet.leaving()
        return {kind: fleet[role.value] for role, kind in self._roles().items()}

    def _roles(self) -> dict[Role, str]:
        """The fleet's roles that this run has, with the names of their kinds."""
        kinds = {role: role.value.replace("_", "-") + "s" for role in Role}
        return {role: kind for role, kind in kinds.items() if kind in scalable(self.config)}

    async def offer_engines(self, policy: str, live: dict[str, Any]) -> None:
        """Tell agents or generators which engines there are."""
        if "fleet" in self.started:
            await self.fleet.set_engines(live, policy)

    @property
    def learning(self) -> EnginePool:
        """The engines of the policy that is trained: the only ones whose weights change."""
        return self.pools[self.config.learning]

    async def push(self, update: WeightUpdate) -> dict[str, float]:
        """Give new weights to all engines of the trained policy; returns the longest seconds by phase."""
        pool = self.learning
        reports = await pool.push(update, partial(self.offer_engines, pool.policy))
        for name in pool.live:
            await asyncio.to_thread(self.learner.acknowledge, update.version, name)
        return {
            "transfer": max((r.transfer_s for r in reports), default=0.0),
            "pause": max((r.paused_s for r in reports), default=0.0),
        }

    async def supervise(self) -> None:
        """Replace what is dead or frozen, but only note a lost learner; raise what can't be repaired."""
        await _all(
            self.fleet.supervise(),
            *(pool.heal(partial(self.offer_engines, policy)) for policy, pool in self.pools.items()),
            self._check_server(),
            self._check_learner(),
        )

    async def restart_learner(self, cause: LearnerError) -> dict[str, Any]:
        """A new learner group, from the newest complete checkpoint if there is one. Returns what the driver
        stored in it."""
        budget = self.config.supervision.restart_budget
        if self.learner_restarts >= budget:
            raise BudgetError(
                f"learner: {self.learner_restarts} restarts are spent (supervision.restart_budget is "
                f"{budget}); last cause: {cause}"
            )
        self.learner_restarts += 1
        self.lost_learner, self._restarting_learner = None, True
        try:
            await asyncio.to_thread(self.learner.close)  # ends a call under way, too
            checkpoint, stored = await asyncio.to_thread(resume_point, self.run)
            await asyncio.to_thread(self._start_learner, checkpoint)
        finally:
            self._restarting_learner = False
        return stored

    def drop_old_snapshots(self) -> None:
        """Remove the snapshots of weights that an earlier learner left behind."""
        kept = self.learning.snapshot()
        for folder in self.run.weights_dir.glob("v*"):
            if str(folder) != kept:
                shutil.rmtree(folder, ignore_errors=True)

    async def close(self, drain_s: float) -> None:
        """End all parts, in the order in which work flows. Bounded; never raises."""
        self._closing.set()
        steps: dict[str, Callable[[], Any]] = {
            "fleet": lambda: self.fleet.close(drain_s),
            "engines": lambda: asyncio.to_thread(self._close_engines),
            "learner": lambda: asyncio.to_thread(self.learner.close),
            "buffer": lambda: asyncio.to_thread(self.buffer.close),
            "server": lambda: asyncio.to_thread(self._stop_server),
        }
        for name, step in steps.items():
            if name in self.started:
                try:
                    await asyncio.wait_for(step(), drain_s + 10.0)
                except Exception as error:  # an end must come to its end
                    log.warning("closing %s: %s: %s", name, type(error).__name__, error)
        self.started.clear()

    async def replay_cpu_s(self) -> float:
        """CPU seconds of the embedded server; 0 for a server of somebody else's."""
        if self._server is None:
            return 0.0
        return float(await answer(self._server.cpu_s.remote(), "replay server", REPLAY_START_S))

    def restarts(self) -> dict[str, int]:
        """Restarts so far, by role."""
        fleet = self.fleet.restarts() if "fleet" in self.started else {}
        return {
            "engine": sum(pool.restarts for pool in self.pools.values()),
            "learner": self.learner_restarts,
            "replay_server": self.restarts_of_server(),
            **fleet,
        }

    def engine_names(self) -> list[str]:
        """Engines that serve the trained policy."""
        return list(self.learning.live)

    def serving(self) -> dict[str, int]:
        """Engines that serve, by policy."""
        return {policy: len(pool.live) for policy, pool in self.pools.items()}

    async def engine_stats(self) -> list[EngineStats]:
        """Of all engines that answer."""
        found = await asyncio.gather(*(pool.stats() for pool in self.pools.values()))
        return [stats for each in found for stats in each]

    def _close_engines(self) -> None:
        for pool in self.pools.values():
            pool.close()

    def _replay_url(self) -> str:
        url = with_password(self.config.replay.url, "replay.url", "write it in place of ***")
        if url is not None:
            return url
        self._server_url = self._start_server()
        return self._server_url

    def _start_server(self) -> str:
        """Start the embedded server's actor; its URL. After the first time, it serves the same URL again."""
        import ray

        several = len([n for n in ray.nodes() if n["Alive"]]) > 1
        # On the driver's node, since the data directory is there.
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        actor = ray.remote(ReplayServer).options(num_cpus=0, scheduling_strategy=here)
        supervision = self.config.supervision
        self._server = actor.remote(
            str(self.run.replay_dir),
            tcp=several,
            url=self._server_url,
            budget=supervision.restart_budget - self.restarts_of_server(),
            ping_timeout_s=supervision.ping_timeout_s,
        )
        if "server" not in self.started:
            self.started.append("server")
        try:
            url: str = ray.get(self._server.url.remote(), timeout=REPLAY_START_S)
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", error)
            raise ReplayError(f"embedded replay server: {cause}") from error
        return url

    def restarts_of_server(self) -> int:
        """Restarts of the server, also together with its actor."""
        return sum(self._server_restarts) + len(self._server_restarts) - 1

    async def _check_server(self) -> None:
        """The actor looks after the server, this after the actor."""
        if self._server is None:
            return
        limit = self.config.supervision.ping_timeout_s
        try:
            self._server_restarts[-1] = await pong(self._server.check.remote(), "replay server", limit)
        except InfrastructureError as error:
            if type(error) is not InfrastructureError:  # what the actor itself can't repair
                raise
            budget = self.config.supervision.restart_budget
            if self.restarts_of_server() >= budget:
                raise BudgetError(
                    f"replay server: {budget} restarts are spent (supervision.restart_budget); "
                    f"last cause: {error}"
                ) from error
            log.warning("replay server: %s; a new actor serves its data", error)
            kill(self._server)
            self._server_restarts.append(0)
            await asyncio.to_thread(self._start_server)

    async def _check_learner(self) -> None:
        if not self.learns:
            return
        group = self.learner
        limit = self.config.supervision.ping_timeout_s
        pings = group.pings()
        answers = await asyncio.gather(
            *(pong(ref, f"rank {rank}", limit) for rank, ref in pings.items()), return_exceptions=True
        )
        for rank, result in zip(pings, answers, strict=True):
            if isinstance(result, BaseException) and group is self.learner and not self._restarting_learner:
                self.lost_learner = LearnerError(self.config.learning, "ping", [rank], str(result))

    def _stop_server(self) -> None:
        import ray

        ray.get(self._server.stop.remote(), timeout=15)
        ray.kill(self._server)

    def _engine_pool(self, config: RunConfig, name: str) -> EnginePool:
        engine = config.engines[name]
        lora = config.policies[name].lora if name == config.learning else None
        return EnginePool(
            name,
            msgspec.structs.replace(
                engine_config(config, name, self.models[name]),
                lora_rank=lora.rank if lora is not None and lora.push == "adapter" else 0,
                weight_transfer="" if config.weights.transport == "files" else config.weights.transport,
            ),
            engine.replicas,
            restart_budget=config.supervision.restart_budget,
            retries=config.weights.retries,
            ray_options=parts_of(config)[ENGINES + name].options(alone=alone()),
            ping_timeout_s=config.supervision.ping_timeout_s,
            machine_wait_s=config.scaling.machine_wait_s,
        )

    def _start_learner(self, checkpoint: Path | None) -> None:
        self.learner = LearnerGroup(
            rank_settings(self.config, self.models[self.config.learning], self.run.weights_dir),
            resources=parts_of(self.config)[LEARNER].custom,
        )
        self.started.append("learner")
        if checkpoint is not None:
            self.learner.load_checkpoint(checkpoint.parent)


def engine_config(config: RunConfig, name: str, model: Path) -> EngineConfig:
    """What an engine of a policy is like, without the ways in which it gets new weights."""
    engine, policy = config.engines[name], config.policies[name]
    return EngineConfig(
        model=str(model),
        kind=engine.backend,
        dtype=policy.dtype,
        max_model_len=policy.context_length,
        max_num_seqs=engine.max_num_seqs,
        tensor_parallel_size=engine.tensor_parallel,
        # Only whole blocks are shared; vLLM's default on CPUs (128) never is by short prompts.
        block_size=CPU_BLOCK if engine.gpus == 0 else None,
        kv_cache_gib=engine.kv_cache_gib,
        gpu_memory_utilization=engine.gpu_memory_utilization,
        enforce_eager=engine.enforce_eager or None,
        seed=config.seed,
        start_s=engine.start_timeout_s,
        request_s=engine.sample_timeout_s,
    )


def rank_settings(config: RunConfig, model: Path, weights_dir: Path) -> RankSettings:
    """The learner's settings for the policy that the method trains, whose model is in `model`."""
    policy = config.policies[config.learning]
    return RankSettings(
        policy=config.learning,
        model=str(model),
        dtype=policy.dtype,
        lora=policy.lora,
        learner=config.learner,
        credit=config.credit,
        objective=config.objective,
        weights=config.weights,
        memory=config.memory if config.method == "empo2" else None,
        advice=config.advice if config.learning == "memory" else None,
        invalid_penalty=config.env.invalid_penalty,
        seed=config.seed,
        gradient_checkpointing=config.learner.gradient_checkpointing,
        weights_dir=str(weights_dir),
    )


def replay_settings(config: RunConfig) -> ReplaySettings:
    """The buffer's settings of a run."""
    replay = config.replay
    return ReplaySettings(
        byte_budget=replay.byte_budget_mib << 20,
        lease_s=replay.lease_s,
        min_group=replay.min_group,
        retry_budget=replay.max_attempts,
        max_kills=replay.max_attempts,
        max_samples=replay.max_samples,
        replay_groups=replay.table_groups if replay.fraction > 0 else 0,
        tips_per_task=config.memory.tips.capacity,
    )


async def _all(*parts: Any) -> None:
    """Run side by side; the first error is raised once all have ended."""
    results = await asyncio.gather(*parts, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


def resume_point(run: RunDir) -> tuple[Path | None, dict[str, Any]]:
    """The newest complete checkpoint of a run and what the driver stored in it; before the first one the run
    goes on from its initial model."""
    found = newest(run.checkpoints)
    if found is None:
        return None, {}
    return found.path, found.extra["caller"]

"""One fake trial through the whole path: Ray actors, environment, replay server, and the learner's decoding.

Everything is real but the engine, which samples nothing: an agent actor with the model's tokenizer, an env
worker with the environment, the server that the run would use, and the buffer as the learner reads it. The
trial's run is named `doctor-fake-trial-…`, and nothing of it stays. An agent at an endpoint is asked there.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from agentmem.app.doctor.finding import Unfit, Unseen
from agentmem.app.doctor.patient import Patient
from agentmem.failures import AgentMemError, InfrastructureError
from agentmem.trajectory import Mode, Task, Ticket, Trial

NAME = "doctor-fake-trial"
EPISODES, TURNS = 2, 2
"""At most: enough for an episode that remembers another."""
FINISH_S = 60.0
"""Beyond what the environment itself may take."""


def fake_trial(patient: Patient) -> str:
    """Play it. Raises what went wrong on the way."""
    if patient.config.method == "mempi-stage1":
        raise Unseen("method 'mempi-stage1' plays no trials")
    return asyncio.run(_played(patient))


async def _played(patient: Patient) -> str:
    import ray

    from actors.agent_settings import AgentSettings
    from actors.engine import fake
    from actors.fleet import Fleet, Role
    from agentmem.app.live.system import replay_settings
    from agentmem.replay import ReplayBuffer
    from agentmem.replay.health import erase

    config = _small(patient)
    run = f"{NAME}-{secrets.token_hex(4)}"
    folder = Path(tempfile.mkdtemp(prefix="am-doctor-"))
    began = time.monotonic()
    server, url = await asyncio.to_thread(_server, patient, folder)
    fleet: Fleet | None = None
    engine: Any = None
    buffer: ReplayBuffer | None = None
    try:
        import msgspec

        settings = msgspec.structs.replace(replay_settings(config), min_group=1)
        buffer = await asyncio.to_thread(ReplayBuffer, url, run, settings=settings, deadline_s=10.0)
        model = str(patient.model("agent")) if "agent" in config.served else ""
        agents = AgentSettings.of(config, run=run, replay_url=url, replay=settings, model=model)
        light = {role: {"num_cpus": 0, "resources": {}} for role in Role}
        fleet = Fleet(config, msgspec.structs.replace(agents, advice=None), ray_options=light)
        await fleet.start()
        engine = fake.create()
        await fleet.set_engines({NAME: engine})
        ticket = _ticket(config)
        await asyncio.to_thread(buffer.submit, [ticket])
        trial, size = await _taken(buffer, fleet, config.env.start_timeout_s + FINISH_S)
        _check(trial, ticket)
        await asyncio.to_thread(buffer.finish_groups, [ticket.task.group], "filtered")
        counters = await asyncio.to_thread(buffer.counters)
        if (counters.filtered, counters.queued + counters.running + counters.buffered) != (1, 0):
            raise AgentMemError(f"the buffer's accounting is wrong after one trial: {counters}")
    finally:
        if fleet is not None:
            await fleet.close(2.0)
        if engine is not None:
            ray.kill(engine, no_restart=True)
        if buffer is not None:
            await asyncio.to_thread(buffer.close)
            await asyncio.to_thread(erase, url, run)
        if server is not None:
            ray.get(server.stop.remote(), timeout=15)
            ray.kill(server, no_restart=True)
        shutil.rmtree(folder, ignore_errors=True)
    played = f"{len(trial.episodes)} episodes, {len(trial.turns())} turns"
    return (
        f"FAKE trial of {config.env.name} {ticket.task.instance!r}: {played}, {size:,} bytes through the "
        f"server and decoded, in {time.monotonic() - began:.1f} s"
    )


def _small(patient: Patient) -> Any:
    """The run's configuration with one agent and one env worker."""
    config = patient.config
    env = config.env.model_copy(
        update={"workers": 1, "slots_per_worker": 1, "max_turns": min(TURNS, config.env.max_turns)}
    )
    agents = config.agents.model_copy(update={"replicas": 1, "trials_in_flight": 1})
    supervision = config.supervision.model_copy(update={"restart_budget": 0})
    return config.model_copy(update={"env": env, "agents": agents, "supervision": supervision})


def _ticket(config: Any) -> Ticket:
    from envs.registry import instances

    instance = instances(config.env.name, config.env.options, "train")[0]
    return Ticket(
        id=NAME,
        task=Task(environment=config.env.name, instance=instance, group=NAME),
        member=0,
        mode=Mode(
            method=config.method,
            episodes=min(EPISODES, config.rollout.episodes),
            memory=config.rollout.memory,
        ),
    )


def _server(patient: Patient, folder: Path) -> tuple[Any, str]:
    """The configured server; without one, an embedded one in an actor of this node, as runs have it."""
    import ray

    from actors.replay_server import ReplayServer
    from agentmem.app.reporting.run_buffer import with_password

    url = with_password(patient.config.replay.url, "replay.url", "use a server without one")
    if url is not None:
        return None, url
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    actor = ray.remote(ReplayServer).options(num_cpus=0, scheduling_strategy=here)
    server = actor.remote(str(folder), tcp=len(patient.resources) > 1)
    return server, ray.get(server.url.remote(), timeout=90)


async def _taken(buffer: Any, fleet: Any, seconds: float) -> tuple[Trial, int]:
    """The trial as the learner gets it, and its bytes in the buffer."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        groups = await asyncio.to_thread(buffer.take_groups, 1, block_s=1.0)
        if groups:
            return groups[0].trials[0], groups[0].payload_bytes
        await fleet.supervise()
        if letters := await asyncio.to_thread(buffer.dead_letters, 1):
            raise Unfit(
                AgentMemError, f"the fake trial failed: {letters[0].what} {letters[0].where}".strip(), ""
            )
    counters = await asyncio.to_thread(buffer.counters)
    raise InfrastructureError(
        f"the fake trial isn't over after {seconds:g} s: {counters.queued} queued, {counters.running} "
        f"running, alive: {fleet.size()}"
    )


def _check(trial: Trial, ticket: Ticket) -> None:
    """It is the one that was asked for, and what the learner needs is in it."""
    from agentmem.trajectory import decode_trial, encode_trial

    if (trial.ticket, trial.task) != (ticket.id, ticket.task) or not trial.episodes or not trial.valid:
        raise AgentMemError(
            f"the trial that came back isn't the one that was asked for: {trial.ticket}, {trial.task}"
        )
    again = decode_trial(encode_trial(trial))  # as the ranks get it
    if [turn.response_ids for turn in again.turns()] != [turn.response_ids for turn in trial.turns()]:
        raise AgentMemError("the trial changed when it was encoded for the ranks")

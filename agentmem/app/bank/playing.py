"""`agentmem bank play TARGET`: training instances, played with frozen weights, kept as whole trials.

They are what a bank is written from: an evaluation keeps no observations of all its trials, and what a run
has trained on is gone from its buffer. Nobody advises the agent here: with Mem-π, too, it plays alone, and
nothing of the memory policy is started or needs to be there. The trials go through the tables of
evaluations, so nobody trains on them; as their instances are of the training split, the file says so. Token
ids are left out: nothing that reads hints needs them. The file grows with every batch of tasks, so an
interrupted command leaves what it has played.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agentmem.config import RunConfig, unadvised
from agentmem.failures import ConfigError
from agentmem.jsonl import LineWriter
from agentmem.trajectory import Split, Ticket, Trial, Turn

if TYPE_CHECKING:
    from rich.console import Console

    from agentmem.app.live.session import Session
    from agentmem.app.reporting.rundir import RunDir


class KeptTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A line: as of `agentmem buffer export`."""

    ticket: str
    trial: Trial


def play_target(
    which: str,
    out: Path,
    *,
    tasks: int,
    trials_per_task: int,
    seed: int,
    overrides: Sequence[str] = (),
    console: Console | None = None,
) -> int:
    """Play and write; how many trials were. Raises ConfigError; SystemExit(130) after a Ctrl-C."""
    from rich.console import Console

    from agentmem.app.evaluation.target import target_of
    from agentmem.app.live.interrupt import INTERRUPTED_EXIT, Interrupted
    from agentmem.app.live.preflight import preflight
    from agentmem.app.live.session import session
    from agentmem.app.reporting.rundir import RunDir, runs_base
    from agentmem.config import to_yaml

    for option, found in (("--tasks", tasks), ("--trials", trials_per_task)):
        if found < 1:
            raise ConfigError(f"{option} is {found}: at least 1")
    if out.exists():
        raise ConfigError(f"--out {out}: is there already; choose another name, or remove it")
    target = target_of(which, overrides)
    config = unadvised(target.config)
    preflight(config)
    tickets = training_tickets(config, tasks, trials_per_task, seed)
    try:
        writer = LineWriter(out)
    except OSError as error:
        raise ConfigError(f"--out {out}: can't write there: {error.strerror}") from error
    run = RunDir.create(f"{target.name}-play", runs_base() / "evals")
    run.config_path.write_text(to_yaml(target.config), encoding="utf-8")
    # What a run of Mem-π trained isn't who plays.
    model = target.model if target.config.learning == "agent" else None
    console = console or Console()
    with writer:
        try:
            with session(config, run, console, updates=0, model=model, learns=False) as live:
                return asyncio.run(_play(config, run, live, tickets, writer))
        except (Interrupted, KeyboardInterrupt):
            console.print(f"Interrupted; what was played is in {out}", highlight=False, soft_wrap=True)
            raise SystemExit(INTERRUPTED_EXIT) from None


def training_tickets(config: RunConfig, tasks: int, trials_per_task: int, seed: int) -> list[Ticket]:
    """Tickets for so many training instances, chosen by the seed, the trials of each one after the other."""
    from agentmem.app.evaluation.evaluate import batch_name, memory_of
    from agentmem.evaluation.held_out import evaluation_tickets
    from agentmem.trajectory import Mode
    from envs.registry import instances

    episodes = config.evaluation.episodes
    memory = memory_of(config, "with_memory" if episodes > 1 else "without_memory")
    mode = Mode(method=config.method, episodes=episodes, memory=memory)
    train = instances(config.env.name, config.env.options, "train")
    batch = batch_name(0, "bank")
    return evaluation_tickets(config.env.name, train, tasks, seed, batch, mode, trials_per_task)


def kept(trial: Trial) -> KeptTrial:
    """A played trial as it is written."""
    task = msgspec.structs.replace(trial.task, split=Split.TRAIN, group="")
    episodes = tuple(
        msgspec.structs.replace(episode, turns=tuple(_lean(turn) for turn in episode.turns))
        for episode in trial.episodes
    )
    lean = {
        "reflections": tuple(_lean(turn) for turn in trial.reflections),
        "advice": tuple(_lean(turn) for turn in trial.advice),
    }
    whole = msgspec.structs.replace(trial, task=task, episodes=episodes, **lean)
    return KeptTrial(ticket=trial.ticket, trial=whole)


def _lean(turn: Turn) -> Turn:
    return msgspec.structs.replace(
        turn,
        prompt_ids=(),
        student_prompt_ids=None,
        response_ids=None,
        logprobs=None,
        versions=None,
        forced=0,
    )


async def _play(
    config: RunConfig, run: RunDir, live: Session, tickets: Sequence[Ticket], writer: LineWriter
) -> int:
    from agentmem.app.evaluation.evaluate import play
    from agentmem.app.live.monitor import Monitor
    from agentmem.app.live.system import System
    from agentmem.app.live.watch import Watch

    system = System(config, run, live.models, learns=False)
    monitor = Monitor(system, live.metrics, live.view)
    watch = Watch(
        config, system, monitor, live.flag, lambda what, detail: live.view.note(f"{what}: {detail}")
    )
    done, at_once = 0, 2 * config.agents.replicas * config.agents.trials_in_flight
    try:
        await watch.guard(system.start(live.view.phase))
        for first in range(0, len(tickets), at_once):

            async def tick(trials: int, total: int, before: int = first) -> None:
                live.view.phase("playing training instances", before + trials, len(tickets))
                await watch.look()

            part = tickets[first : first + at_once]
            played = await play(config, system.buffer, part, f"{part[0].task.group}-{first}", tick)
            writer.write(kept(trial) for trial in played)
            done += len(played)
    finally:
        live.view.phase("closing")
        await watch.close()
        await system.close(config.supervision.drain_timeout_s)
    return done

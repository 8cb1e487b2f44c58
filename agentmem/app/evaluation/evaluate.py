"""Held-out evaluation: tickets of split `eval`, played by the same agents, counted apart from training."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

import msgspec

from agentmem.app.reporting.records import CONDITIONS, AdviceRecord, Condition, EvalRecord, GapRecord
from agentmem.chat.decision import Decision
from agentmem.config import RunConfig
from agentmem.evaluation.domains import figures_by_domain
from agentmem.evaluation.held_out import evaluation_tickets
from agentmem.evaluation.lines import TrialLine, line_of
from agentmem.evaluation.paired import memory_gap
from agentmem.evaluation.pass_at_k import pass_at_k
from agentmem.failures import InfrastructureError, StalledError
from agentmem.memory.advice_health import Choice, health_of
from agentmem.replay import ReplayBuffer
from agentmem.trajectory import Mode, Ticket, Trial

POLL_S = 0.1
BATCH = "evaluation"
"""Cursor: the evaluation in course, empty when there is none."""
Tick = Callable[[int, int], Awaitable[None]]
"""Called while it waits, with trials done and asked for: looks after the system, may raise."""


def memory_of(config: RunConfig, condition: Condition) -> str:
    """The memory mode of a condition. What was trained without memory is given the history."""
    if condition == "without_memory":
        return "none"
    return config.rollout.memory if config.rollout.memory != "none" else "history"


def mode_of(config: RunConfig, condition: Condition) -> Mode:
    """How the trials of a condition are played. Where a memory policy advises (Mem-π), its hints are the
    memory: what the trial itself remembers is the same under both conditions."""
    if config.advised:
        advice = "free" if condition == "with_memory" else ""
        memory: str = config.rollout.memory
    else:
        advice, memory = "", memory_of(config, condition)
    return Mode(method=config.method, episodes=config.evaluation.episodes, memory=memory, advice=advice)


def drop_unfinished(buffer: ReplayBuffer) -> None:
    """Withdraw what is left of the evaluation in course (also one whose driver has died)."""
    batch = buffer.get_cursor(BATCH)
    if batch:
        buffer.drop_eval(batch)
        buffer.set_cursor(BATCH, "")


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What one condition gave."""

    record: EvalRecord
    lines: list[TrialLine]
    trials: list[Trial]


async def evaluate(
    config: RunConfig,
    buffer: ReplayBuffer,
    instances: Sequence[str | int],
    condition: Condition,
    update: int,
    tick: Tick,
    *,
    trials_per_task: int = 1,
    unseen: Collection[str] | None = None,
) -> Evaluated:
    """Play the held-out tasks under one condition with the weights that are served now.

    `unseen`: domains of a mixture that they weren't trained on; None: as the configuration leaves out.
    """
    began = time.monotonic()
    batch = batch_name(update, condition)
    evaluation = config.evaluation
    mode = mode_of(config, condition)
    tickets = evaluation_tickets(
        config.env.name, instances, evaluation.tasks, evaluation.seed, batch, mode, trials_per_task
    )
    trials = await play(config, buffer, tickets, batch, tick)
    shares = pass_at_k([[e.success for e in trial.episodes] for trial in trials], evaluation.episodes)
    scores = [trial.score for trial in trials if trial.score is not None]
    lines = [line_of(t, condition, evaluation.seed, sample=t.member, update=update) for t in trials]
    record = EvalRecord(
        update=update,
        condition=condition,
        n=len(trials),
        p_at_k=[share.value for share in shares],
        low=[share.low for share in shares],
        high=[share.high for share in shares],
        score=sum(scores) / len(scores) if scores else None,
        wall_s=time.monotonic() - began,
        domains=figures_by_domain(lines, evaluation.episodes, left_out(config) if unseen is None else unseen),
    )
    return Evaluated(record, lines, trials)


def left_out(config: RunConfig) -> frozenset[str]:
    """The domains of a mixture that aren't trained on."""
    from envs.registry import style, weights

    env = config.env
    trained = weights(env.name, env.options)
    return frozenset(style(env.name, env.options).each()) - set(trained) if trained else frozenset()


def batch_name(update: int, condition: str) -> str:
    """A name of its own for each try, so that a resumed run doesn't mix weights."""
    return f"eval-{update}-{condition}-{int(time.time() * 1000):x}"


async def play(
    config: RunConfig, buffer: ReplayBuffer, tickets: Sequence[Ticket], batch: str, tick: Tick
) -> list[Trial]:
    """Submit tickets and wait for all of them; the trials that didn't fail, by ticket id."""
    await asyncio.to_thread(buffer.set_cursor, BATCH, batch)
    await asyncio.to_thread(buffer.submit, tickets, batch=batch)
    done, moved = 0, time.monotonic()
    while True:
        status = await asyncio.to_thread(buffer.eval_status, batch)
        if status.done + status.failed > done:
            done, moved = status.done + status.failed, time.monotonic()
        await tick(done, len(tickets))
        if status.complete:
            break
        if time.monotonic() - moved > config.supervision.stall_timeout_s:
            raise StalledError(
                f"evaluation: no trial finished for {config.supervision.stall_timeout_s:g} s "
                f"({done} of {len(tickets)} done)"
            )
        await asyncio.sleep(POLL_S)
    trials = await asyncio.to_thread(buffer.eval_results, batch)
    await asyncio.to_thread(drop_unfinished, buffer)
    if not trials:
        raise InfrastructureError(f"evaluation: all {len(tickets)} trials failed (see agentmem buffer)")
    return trials


def gap_record(lines: Sequence[TrialLine], update: int, episodes: int) -> GapRecord | None:
    """The memory gap after an update; None unless both conditions played a common task."""
    arms = [
        [line for line in lines if (line.update, line.condition) == (update, condition)]
        for condition in CONDITIONS
    ]
    if not {line.instance for line in arms[0]} & {line.instance for line in arms[1]}:
        return None
    found = memory_gap(arms[0], arms[1], episodes)
    return GapRecord(
        update=update,
        n=found[0].tasks,
        gap=[d.value for d in found],
        low=[d.low for d in found],
        high=[d.high for d in found],
    )


def advice_record(lines: Sequence[TrialLine], update: int) -> AdviceRecord | None:
    """What the memory policy decided in the evaluation after an update; None if it wasn't asked."""
    of_update = [line for line in lines if line.update == update]
    advised = [(line, said) for line in of_update for said in line.advice]
    if not advised:
        return None
    alone: dict[tuple[int, str | int], list[bool]] = {}
    for line in of_update:
        if line.condition == "without_memory":
            alone.setdefault((line.seed, line.instance), []).append(any(line.solved))
    choices, tokens, late = [], 0, 0
    for line, said in advised:
        tokens, late = tokens + said.hint_tokens, late + said.late
        if not said.late:
            wins = alone.get((line.seed, line.instance))
            choices.append(
                Choice(
                    abstains=said.decision == Decision.ABSTAIN,
                    p_generate=said.p_generate,
                    alone=sum(wins) / len(wins) if wins else None,
                )
            )
    found = msgspec.structs.asdict(health_of(choices))
    return AdviceRecord(update=update, late=late, hint_tokens=tokens / len(advised), **found)

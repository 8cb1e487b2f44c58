"""`agentmem eval TARGET --adapt N`: weights frozen, memory grows (EMPO²'s out-of-distribution protocol).

Each held-out instance is attempted N times, one episode an attempt. The first attempt reads no memory; after
each, the policy writes a tip, and from the second one on prompts show tips (`memory.tips` says which). All
instances finish an attempt, and their tips are written, before the next begins, so attempt k can read all
that k - 1 attempts taught; where all instances share a book (`memory.tips.scope: environment`), it can read
what its own has written so far, too. Seeds have books of their own, and nothing that training wrote is read.

Written beside the other evaluations: `adapt.jsonl`, one line an attempt and seed; `trials.jsonl`, one line a
trial, with the condition `attempt_k`; `adapt.png`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agentmem.app.evaluation.evaluate import batch_name, play
from agentmem.app.live.interrupt import Interrupted
from agentmem.app.reporting.rundir import RunDir, runs_base
from agentmem.app.reporting.table import INTERVALS, aligned
from agentmem.config import RunConfig, to_yaml
from agentmem.evaluation.held_out import evaluation_tickets
from agentmem.evaluation.lines import TrialWriter, line_of
from agentmem.evaluation.pass_at_k import Share, wilson
from agentmem.failures import ConfigError, StalledError
from agentmem.jsonl import LineWriter
from agentmem.memory.modes import UpdateMode
from agentmem.trajectory import Mode, Trial

if TYPE_CHECKING:
    from rich.console import Console

    from agentmem.app.live.session import Session
    from agentmem.app.live.system import System
    from agentmem.app.live.watch import Watch

POLL_S = 0.1


class AttemptLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `adapt.jsonl`: one attempt at all instances of one seed."""

    attempt: int
    """From 1; the first one has no memory."""
    seed: int
    n: int
    solved: int
    score: float | None
    """Mean of the benchmark's own, null where it has none."""
    tips: int
    """Entries of all books when the attempt began."""
    with_tips: int
    """Turns that looked for tips in a book that had any."""
    wall_s: float

    @property
    def share(self) -> Share:
        """Solved, with a 95 % interval."""
        return wilson(self.solved, self.n)


def adapting(config: RunConfig) -> RunConfig:
    """The configuration under which a model adapts, whatever it was trained with: EMPO²'s tips, one episode,
    and room for the tips of all instances at once."""
    rollout = config.rollout.model_copy(update={"episodes": 1, "memory": "none"})
    pending = max(config.memory.tips.pending, config.evaluation.tasks)
    tips = config.memory.tips.model_copy(update={"pending": pending})
    memory = config.memory.model_copy(update={"tips": tips})
    return config.model_copy(update={"method": "empo2", "rollout": rollout, "memory": memory})


def adapt_target(
    which: str,
    attempts: int,
    *,
    seeds: int = 1,
    overrides: Sequence[str] = (),
    console: Console | None = None,
) -> Path:
    """Adapt and print the table; the directory with the results. SystemExit(130) after a Ctrl-C."""
    from rich.console import Console

    from agentmem.app.evaluation.target import check_trained_on, target_of
    from agentmem.app.live.interrupt import INTERRUPTED_EXIT
    from agentmem.app.live.preflight import preflight
    from agentmem.app.live.session import session

    target = target_of(which, overrides)
    config = adapting(target.config)
    for option, found, least in (
        ("--adapt", attempts, 2),
        ("--seeds", seeds, 1),
        ("evaluation.tasks", config.evaluation.tasks, 1),
    ):
        if found < least:
            raise ConfigError(f"{option} is {found}: at least {least}")
    preflight(config, seeds)
    check_trained_on(target, seeds)
    run = RunDir.create(f"{target.name}-adapt", runs_base() / "evals")
    run.config_path.write_text(to_yaml(config), encoding="utf-8")
    console = console or Console()
    first = config.evaluation.seed
    try:
        with session(config, run, console, updates=0, model=target.model, learns=False) as live:
            lines = asyncio.run(adapt(config, run, live, range(first, first + seeds), attempts))
    except (Interrupted, KeyboardInterrupt):
        console.print(f"Interrupted; what was measured is in {run.path}", highlight=False, soft_wrap=True)
        raise SystemExit(INTERRUPTED_EXIT) from None
    draw_adaptation(lines, run.path / "adapt.png", target.name)
    for text in (adapt_table(lines), str(run.path)):
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    return run.path


async def adapt(
    config: RunConfig, run: RunDir, live: Session, seeds: Sequence[int], attempts: int
) -> list[AttemptLine]:
    """Play all attempts of all seeds; `config` is one of `adapting`. Raises what stops it."""
    from agentmem.app.live.monitor import Monitor
    from agentmem.app.live.system import System
    from agentmem.app.live.watch import Watch

    system = System(config, run, live.models, learns=False)
    monitor = Monitor(system, live.metrics, live.view)
    watch = Watch(
        config, system, monitor, live.flag, lambda what, detail: live.view.note(f"{what}: {detail}")
    )
    found: list[AttemptLine] = []
    try:
        await watch.guard(system.start(live.view.phase))
        with TrialWriter(run.trials_path) as trials, LineWriter(run.path / "adapt.jsonl") as lines:
            for seed in seeds:
                for attempt in range(1, attempts + 1):
                    line, played = await _attempt(config, live, system, watch, seed, attempt)
                    found.append(line)
                    lines.write([line])
                    trials.append([line_of(trial, f"attempt_{attempt}", seed) for trial in played])
    finally:
        live.view.phase("closing")
        await watch.close()
        await system.close(config.supervision.drain_timeout_s)
    return found


async def _attempt(
    config: RunConfig, live: Session, system: System, watch: Watch, seed: int, attempt: int
) -> tuple[AttemptLine, list[Trial]]:
    from envs.registry import instances

    began, namespace = time.monotonic(), f"adapt-{seed}"
    stats = await asyncio.to_thread(system.buffer.tip_stats, namespace)
    batch = batch_name(attempt, f"adapt-{seed}")
    # Also the first attempt writes tips, and a shared book would show them to those that begin later.
    draw = UpdateMode.PLAIN if attempt == 1 else UpdateMode.TIPS
    mode = Mode(method="empo2", draw=draw.value, tips=namespace)
    held_out = instances(config.env.name, config.env.options, "eval")
    tickets = evaluation_tickets(config.env.name, held_out, config.evaluation.tasks, seed, batch, mode)

    async def tick(done: int, total: int) -> None:
        live.view.phase(f"seed {seed}, attempt {attempt}", done, total)
        await watch.look()

    played = await play(config, system.buffer, tickets, batch, tick)
    await _written(config, system, watch)
    scores = [trial.score for trial in played if trial.score is not None]
    line = AttemptLine(
        attempt=attempt,
        seed=seed,
        n=len(played),
        solved=sum(trial.success for trial in played),
        score=sum(scores) / len(scores) if scores else None,
        tips=stats.tips,
        with_tips=sum(
            turn.memory_snapshot != "" and not turn.memory_snapshot.endswith("@0")
            for trial in played
            for episode in trial.episodes
            for turn in episode.turns
        ),
        wall_s=time.monotonic() - began,
    )
    return line, played


async def _written(config: RunConfig, system: System, watch: Watch) -> None:
    """Until no tip is under way: the next attempt shall read them all."""
    limit = config.engines["agent"].sample_timeout_s
    end = time.monotonic() + limit
    while any(stats.tips_pending for stats in await system.fleet.agent_stats()):
        await watch.look()
        if time.monotonic() > end:
            raise StalledError(f"adapting: tips are still being written after {limit:g} s")
        await asyncio.sleep(POLL_S)


def adapt_table(lines: Sequence[AttemptLine]) -> str:
    """A row an attempt, all seeds together, with what has changed since the first."""
    attempts = pooled(lines)
    scored = any(line.score is not None for line in attempts)
    header = ["attempt", "n", "solved", *(["score"] * scored), "change", "tips"]
    first = attempts[0]
    body = []
    for line in attempts:
        share = line.share
        value, before = (line.score, first.score) if scored else (share.value, first.share.value)
        change = "-" if line is first or not before else f"{(value or 0.0) / before - 1:+.0%}"
        body.append(
            [
                str(line.attempt),
                str(line.n),
                f"{share.value:.3f} [{share.low:.3f}-{share.high:.3f}]",
                *([] if not scored else ["-" if line.score is None else f"{line.score:.3f}"]),
                change,
                str(line.tips),
            ]
        )
    what = "score" if scored else "share solved"
    return "\n".join([*aligned(header, body), f"[ ]: {INTERVALS}; change: of the {what} since attempt 1"])


def pooled(lines: Sequence[AttemptLine]) -> list[AttemptLine]:
    """One line an attempt: the trials of all seeds together."""
    out = []
    for attempt in sorted({line.attempt for line in lines}):
        own = [line for line in lines if line.attempt == attempt]
        scored = [line for line in own if line.score is not None]
        counted = sum(line.n for line in scored)
        out.append(
            AttemptLine(
                attempt=attempt,
                seed=-1,
                n=sum(line.n for line in own),
                solved=sum(line.solved for line in own),
                score=sum((line.score or 0.0) * line.n for line in scored) / counted if counted else None,
                tips=sum(line.tips for line in own),
                with_tips=sum(line.with_tips for line in own),
                wall_s=sum(line.wall_s for line in own),
            )
        )
    return out


def draw_adaptation(lines: Sequence[AttemptLine], path: Path, title: str) -> Path:
    """The curve: share solved by attempt with its interval, and the mean score where there is one."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    attempts = pooled(lines)
    made = Figure(figsize=(7.0, 4.2), dpi=150, layout="constrained")
    FigureCanvasAgg(made)
    axes = made.add_subplot()
    x = [line.attempt for line in attempts]
    shares = [line.share for line in attempts]
    axes.fill_between(x, [s.low for s in shares], [s.high for s in shares], color="#2171b5", alpha=0.18)
    axes.plot(x, [s.value for s in shares], color="#2171b5", marker="o", label="solved")
    axes.set_ylim(0, 1)
    axes.set_xlabel("attempt (weights frozen, tips of the earlier ones in the prompt)")
    axes.set_ylabel("share of instances solved")
    axes.set_xticks(x)
    scores = [line.score for line in attempts]
    if all(score is not None for score in scores):
        second = axes.twinx()
        second.plot(x, [s or 0.0 for s in scores], color="#a63603", marker="s", linestyle="--")
        second.set_ylabel("mean score", color="#a63603")
        second.spines[["top"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left", fontsize=11)
    made.savefig(path, format="png")
    return path

"""The driver's loop: tickets out, complete groups in, updates, weight pushes, checkpoints, evaluations.

Promises:
- Run-ahead is bounded: at most `(max_staleness + 1) · tasks_per_update` groups are issued and not trained.
- While the learner works, agents go on playing; a group counts as consumed when its update is over.
- A checkpoint settles what was consumed before it; what was consumed after it is trained again on resume,
  from the very same trials, which the buffer holds until then.
- No progress for `stall_timeout_s` ends the run, naming what it waits for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

from agentmem.app.evaluate import evaluate
from agentmem.app.examples import ExampleStore
from agentmem.app.interrupt import InterruptFlag
from agentmem.app.monitor import Monitor
from agentmem.app.records import (
    CONDITIONS,
    EventRecord,
    MetricsWriter,
    UpdateRecord,
    evals_of,
    read_records,
    truncate_after,
)
from agentmem.app.rundir import RunDir
from agentmem.app.schedule import TaskSchedule
from agentmem.app.system import System
from agentmem.app.update_record import make_record
from agentmem.app.view import LiveView
from agentmem.config import RunConfig
from agentmem.failures import AgentMemError, StalledError
from agentmem.replay import Group, Outcome
from agentmem.telemetry import Metrics
from agentmem.trajectory import Mode

log = logging.getLogger(__name__)

POLL_S = 1.0
SUPERVISE_S = 2.0
TAKE_BLOCK_S = 0.2
MAX_DATA_FAILURES = 20
"""Trials that failed by our or the environment's own bug before the run gives up."""
MAX_EMPTY_UPDATES = 50
"""Updates in a row without a row to train (every group solved or failed alike) before the run gives up."""

T = TypeVar("T")


class Trainer:
    """One run of a recipe, from a resolved model to the final model."""

    def __init__(
        self,
        config: RunConfig,
        run: RunDir,
        model: Path,
        view: LiveView,
        metrics: Metrics,
        flag: InterruptFlag,
        *,
        checkpoint: Path | None,
        extra: dict[str, Any],
    ) -> None:
        from envs.registry import instances

        self._config, self._run, self._view, self._flag = config, run, view, flag
        self._checkpoint, self._extra = checkpoint, extra
        self._system = System(config, run, model)
        self._monitor = Monitor(self._system, metrics, view)
        rollout = config.rollout
        self._schedule = TaskSchedule(
            config.env.name,
            instances(config.env.name, config.env.options, "train"),
            seed=config.seed,
            group_size=rollout.group_size,
            mode=Mode(method=config.method, episodes=rollout.episodes, memory=rollout.memory),
        )
        self._held_out = instances(config.env.name, config.env.options, "eval")
        self._update = int(extra.get("update", 0))
        self._version = int(extra.get("version", 0))
        self._next_group = int(extra.get("next_group", 0))
        self._consumed = int(extra.get("consumed", 0))
        spent = truncate_after(run.metrics_path, self._update) if checkpoint is not None else 0.0
        self._writer = MetricsWriter(run.metrics_path)
        self._began = time.monotonic() - spent
        self._polled = self._supervised = 0.0
        self._moved = time.monotonic()
        self._empty = 0
        self._restarts: dict[str, int] = {}
        self._learner_cpu_s = 0.0
        self._cpu_s: dict[str, float] = {}

    async def run(self) -> None:
        """See the module's docstring."""
        config = self._config
        try:
            await self._start()
            if config.evaluation.tasks:
                await self._evaluate_missing("evaluating before training")
            with ExampleStore(self._run.examples, decode=self._decoder()) as examples:
                await self._train(examples)
            if config.evaluation.tasks:
                await self._evaluate_missing("evaluating after training")
            self._view.phase("writing the final model")
            await self._on_thread(self._system.learner.final_model, str(self._run.final_model))
            await self._monitor.poll()
            self._cpu_s = {
                **self._monitor.cpu_by_role(),
                "learner": self._learner_cpu_s,
                "replay server": await self._system.replay_cpu_s(),
            }
            log.info("CPU seconds: %s", {role: round(spent, 1) for role, spent in self._cpu_s.items()})
        finally:
            self._view.phase("closing")
            await self._system.close(config.supervision.drain_timeout_s)
            self._writer.close()

    def cpu_s(self) -> float:
        """CPU seconds of all parts since the start, without making the model and starting Ray."""
        return sum(self._cpu_s.values())

    # --- start

    async def _start(self) -> None:
        await self._guard(self._system.start(self._view.phase, self._checkpoint))
        if self._checkpoint is not None:
            buffer = self._system.buffer
            back = await asyncio.to_thread(buffer.recover_groups)
            again = await asyncio.to_thread(buffer.rewind, self._consumed)
            self._event(
                "resume", f"update {self._update}; {again} groups trained later and {back} taken are back"
            )
            await self._push()

    def _decoder(self) -> Any:
        from agentmem.chat import ChatCodec

        codec = ChatCodec(str(self._system.model))
        return lambda policy, ids: codec.decode(ids)

    # --- the loop

    async def _train(self, examples: ExampleStore) -> None:
        config = self._config
        self._view.phase("training")
        self._moved = time.monotonic()
        while self._update < config.learner.updates:
            await self._look_after()
            waited = time.monotonic()
            groups = await self._next_groups()
            started = time.monotonic()
            result = await self._guard(
                self._on_thread(self._system.learner.update, [list(g.trials) for g in groups], self._version)
            )
            updated = time.monotonic()
            self._consumed = await asyncio.to_thread(
                self._system.buffer.finish_groups, [g.id for g in groups], Outcome.TRAINED, hold=True
            )
            self._version = result.version
            self._update += 1
            push: dict[str, float] = {}
            if result.applied and self._update % config.weights.every == 0:
                push = await self._push()
            # After the push, so that what is issued now is played with the new weights from its first token.
            await self._issue()
            record = make_record(
                groups,
                result,
                update=self._update,
                t=time.monotonic() - self._began,
                wait_s=started - waited,
                update_s=updated - started,
                push_s=time.monotonic() - updated,
                rollout_idle=self._monitor.totals.idle_share,
                max_episodes=config.rollout.episodes,
            )
            self._learner_cpu_s += result.metrics.get("cpu_s", 0.0)
            self._writer.append(record)
            phases = {k.removesuffix("_s"): v for k, v in result.metrics.items() if k.endswith("_s")}
            self._monitor.updated(record, push, phases)
            by_ticket = {r.ticket: r for r in result.records}
            for trial in (trial for group in groups for trial in group.trials):
                examples.offer(trial, self._update, _credit(by_ticket.get(trial.ticket), result, record))
            self._note_empty(record)
            if self._update % config.learner.checkpoint_every == 0 or self._update == config.learner.updates:
                await self._save()
            if config.evaluation.every and self._update % config.evaluation.every == 0:
                await self._evaluate_missing("evaluating")
                self._view.phase("training")

    async def _next_groups(self) -> list[Group]:
        """Complete groups for one update, in the order of their submission."""
        wanted = self._config.rollout.tasks_per_update
        while True:
            await self._issue()
            groups = await asyncio.to_thread(self._take, wanted)
            if groups:
                self._moved = time.monotonic()
                return groups
            await self._look_after()
            self._check_stall(f"{wanted} complete groups")

    def _take(self, wanted: int) -> list[Group]:
        return self._system.buffer.take_groups(
            wanted,
            at_least=wanted,
            current_version=self._version,
            max_staleness=self._config.replay.hard_staleness,
            block_s=TAKE_BLOCK_S,
        )

    async def _issue(self) -> None:
        """Keep the allowed number of groups issued and not trained."""
        config = self._config
        room = (config.replay.max_staleness + 1) * config.rollout.tasks_per_update
        counters = await asyncio.to_thread(self._system.buffer.counters)
        open_groups = counters.groups_open + counters.groups_ready + counters.groups_taken
        left = (config.learner.updates - self._update) * config.rollout.tasks_per_update
        count = min(room, left) - open_groups
        if count <= 0:
            return
        tickets = [
            ticket
            for group in range(self._next_group, self._next_group + count)
            for ticket in self._schedule.tickets(group, self._version)
        ]
        self._next_group += count
        await asyncio.to_thread(self._system.buffer.submit, tickets)

    async def _push(self) -> dict[str, float]:
        """Publish the learner's weights and give them to every engine. Returns seconds by phase."""
        began = time.monotonic()
        update = await self._guard(
            self._on_thread(self._system.learner.publish, self._version, self._system.engine_names())
        )
        published = time.monotonic()
        phases = await self._guard(self._system.push(update))
        return {"publish": published - began, "total": time.monotonic() - began, **phases}

    async def _save(self) -> None:
        """A checkpoint; what was consumed before it is gone for good."""
        extra = {
            "update": self._update,
            "version": self._version,
            "next_group": self._next_group,
            "consumed": self._consumed,
            "seed": self._config.seed,
        }
        await self._guard(
            self._on_thread(
                self._system.learner.save_checkpoint, str(self._run.checkpoints), self._update, extra
            )
        )
        await asyncio.to_thread(self._system.buffer.settle, self._consumed)

    # --- evaluation

    async def _evaluate_missing(self, what: str) -> None:
        """Evaluate the conditions that this update hasn't been evaluated under yet."""
        done = {(r.update, r.condition) for r in evals_of(read_records(self._run.metrics_path))}
        for condition in CONDITIONS:
            if condition not in self._config.evaluation.conditions or (self._update, condition) in done:
                continue
            text = f"{what}, {condition.replace('_', ' ')}"

            async def tick(trials: int, total: int, text: str = text) -> None:
                self._view.phase(text, trials, total)
                await self._look_after()

            record, _ = await evaluate(
                self._config, self._system.buffer, self._held_out, condition, self._update, tick
            )
            self._writer.append(record)
        self._moved = time.monotonic()

    # --- supervision

    async def _look_after(self) -> None:
        """What has to be done now and then, whatever the loop waits for."""
        self._flag.check()
        now = time.monotonic()
        if now - self._supervised >= SUPERVISE_S:
            await self._system.supervise()
            for role, count in self._system.restarts().items():
                if count > self._restarts.get(role, 0):
                    self._event("restart", f"{role}: {count} so far")
                self._restarts[role] = count
            self._supervised = time.monotonic()
        if now - self._polled >= POLL_S:
            before = self._monitor.totals.trials
            await self._monitor.poll()
            if self._monitor.totals.trials > before:
                self._moved = time.monotonic()
            self._check_data_failures()
            self._polled = time.monotonic()

    async def _guard(self, work: Awaitable[T]) -> T:
        """Wait for a part's work while the rest is looked after."""
        task = asyncio.ensure_future(work)
        try:
            while True:
                done, _ = await asyncio.wait([task], timeout=0.25)
                if done:
                    return task.result()
                if "fleet" in self._system.started:
                    await self._look_after()
                else:
                    self._flag.check()
        finally:
            task.cancel()

    async def _on_thread(self, call: Any, *args: Any) -> Any:
        return await asyncio.to_thread(call, *args)

    def _check_stall(self, what: str) -> None:
        limit = self._config.supervision.stall_timeout_s
        if time.monotonic() - self._moved > limit:
            counters = self._monitor.counters
            raise StalledError(
                f"no progress for {limit:g} s: update {self._update + 1} waits for {what}; "
                f"{counters.queued} trials queued, {counters.running} running, {counters.buffered} buffered, "
                f"{len(self._system.engine_names())} engines alive"
            )

    def _check_data_failures(self) -> None:
        dead = self._monitor.counters.dead_letters
        if dead > MAX_DATA_FAILURES:
            causes = "; ".join(sorted(set(self._monitor.data_failures.values()))) or "see the dead letters"
            raise AgentMemError(f"{dead} trials failed for good: {causes}")

    def _note_empty(self, record: UpdateRecord) -> None:
        self._empty = 0 if record.rows else self._empty + 1
        if self._empty >= MAX_EMPTY_UPDATES:
            raise AgentMemError(
                f"{self._empty} updates in a row had no row to train: each group was rewarded alike"
            )

    def _event(self, what: str, detail: str) -> None:
        self._writer.append(EventRecord(t=time.monotonic() - self._began, what=what, detail=detail))
        self._view.note(f"{what}: {detail}")
        log.info("%s: %s", what, detail)


def _credit(trained: Any, result: Any, record: UpdateRecord) -> dict[str, Any] | None:
    """The learner's short record of a trial."""
    if trained is None:
        return None
    return {
        "advantages": list(trained.advantages),
        "version": result.version,
        "loss_share": trained.tokens / max(1, record.trained_tokens),
    }

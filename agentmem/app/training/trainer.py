"""The driver's loop: tickets out, complete groups in, updates, weight pushes, checkpoints, evaluations.

Promises:
- While the learner works, agents go on playing; a group counts as consumed when its update is over.
- A checkpoint settles what was consumed before it; what was consumed after it is trained again after a
  restart, from the very same trials, which the buffer holds until then.
- A learner that dies or freezes is started anew from the newest complete checkpoint (before the first one:
  from the initial model), within its restart budget; buffer, metrics and versions go back with it
  (`lineage.py`), so no update counts twice. A resume of a killed run is the same, for all parts.
- No progress for `stall_timeout_s` ends the run, naming what it waits for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentmem.app.evaluation.evaluate import advice_record, drop_unfinished, evaluate, gap_record
from agentmem.app.live.interrupt import Interrupted, InterruptFlag
from agentmem.app.live.monitor import Monitor
from agentmem.app.live.reporter import Reporter
from agentmem.app.live.scaler import Scaler
from agentmem.app.live.system import System
from agentmem.app.live.watch import Watch
from agentmem.app.reporting.examples import ExampleStore, decoder
from agentmem.app.reporting.records import (
    CONDITIONS,
    Condition,
    EventRecord,
    MetricsWriter,
    UpdateRecord,
    evals_of,
    read_records,
    truncate_after,
)
from agentmem.app.reporting.rundir import RunDir
from agentmem.app.reporting.view import LiveView
from agentmem.app.training.admission import Admission, replayed_groups
from agentmem.app.training.bank_feed import BankFeed
from agentmem.app.training.schedule import TaskSchedule, mode_draw
from agentmem.app.training.state import RunState
from agentmem.app.training.update_record import make_record, outcomes
from agentmem.chaos import hold
from agentmem.config import RunConfig
from agentmem.evaluation.lines import TrialWriter, read_lines
from agentmem.evaluation.lines import truncate_after as truncate_lines
from agentmem.failures import AgentMemError, Failure
from agentmem.replay import Group
from agentmem.telemetry import Metrics
from agentmem.trajectory import Mode
from learner.group import LearnerError

log = logging.getLogger(__name__)

MAX_EMPTY_UPDATES = 50
"""Updates in a row without a row to train (every group solved or failed alike) before the run gives up."""
TRAINING_TIPS = "train"
"""Namespace of the tips that training trials write and read; evaluations have others, or none."""
PUBLISHED = "published"
"""Cursor: the highest version that was ever given out."""


class Trainer:
    """One run of a recipe, from a resolved model to the final model.

    `resumed`: what the newest checkpoint holds of the driver ({} before the first one); None for a new run.
    """

    def __init__(
        self,
        config: RunConfig,
        run: RunDir,
        models: Mapping[str, Path],
        view: LiveView,
        metrics: Metrics,
        flag: InterruptFlag,
        *,
        checkpoint: Path | None,
        resumed: dict[str, Any] | None,
    ) -> None:
        from envs.registry import instances, weights

        self._config, self._run, self._view, self._flag = config, run, view, flag
        self._checkpoint, self._resumed = checkpoint, resumed
        self._system = System(config, run, models)
        self._feed = BankFeed.of(config, models["memory"]) if config.advised else None
        self._monitor = Monitor(self._system, metrics, view)
        scaler = Scaler(config, self._system, self._monitor, metrics, self._event)
        self._reporter = Reporter(config, self._system, self._monitor, scaler, view)
        self._watch = Watch(
            config,
            self._system,
            self._monitor,
            flag,
            self._event,
            early=(self._reporter.run,),
            beside=(scaler.run,),
        )
        rollout = config.rollout
        self._schedule = TaskSchedule(
            config.env.name,
            instances(config.env.name, config.env.options, "train"),
            seed=config.seed,
            group_size=rollout.group_size,
            mode=Mode(
                method=config.method,
                episodes=rollout.episodes,
                memory=rollout.memory,
                tips=TRAINING_TIPS if config.tipped else "",
            ),
            draw=mode_draw(config),
            branches=config.advice.branches() if config.advised else (),
            groups_per_update=rollout.tasks_per_update - replayed_groups(config),
            weights=weights(config.env.name, config.env.options),
        )
        self._held_out = instances(config.env.name, config.env.options, "eval")
        self._admission: Admission
        self._state = RunState.of(resumed or {})
        self._writer = MetricsWriter(run.metrics_path)
        self._began = time.monotonic()
        self._empty = 0
        self._whole = True
        """No update is half done: what the learner holds is what the state says."""
        self._saved = self._state.update
        """Update of the newest checkpoint."""
        self._learner_cpu_s = 0.0
        self._tips_counted = 0
        self._cpu_s: dict[str, float] = {}

    async def run(self) -> None:
        """See the module's docstring."""
        config, ended = self._config, ""
        try:
            await self._start()
            with ExampleStore(self._run.examples, decode=decoder(self._system.models)) as examples:
                try:
                    await self._to_the_end(examples)
                except Interrupted:
                    await self._save_on_the_way_out()
                    raise
            ended = "finished"
            await self._monitor.poll()
            self._cpu_s = {
                **self._monitor.cpu_by_role(),
                "learner": self._learner_cpu_s,
                "replay server": await self._system.replay_cpu_s(),
            }
            log.info("CPU seconds: %s", {role: round(spent, 1) for role, spent in self._cpu_s.items()})
        except Interrupted:
            ended = "interrupted"
            raise
        except Exception as error:
            ended = f"failed: {Failure.of(error).what.splitlines()[0]}"
            raise
        finally:
            self._view.phase("closing")
            await self._watch.close()
            await self._reporter.last_word(ended or "interrupted")
            await self._system.close(config.supervision.drain_timeout_s)
            self._writer.close()

    def cpu_s(self) -> float:
        """CPU seconds of all parts since the start, without making the model and starting Ray."""
        return sum(self._cpu_s.values())

    async def _start(self) -> None:
        await self._watch.guard(self._system.start(self._view.phase, self._checkpoint))
        self._admission = Admission(self._config, self._schedule, self._system.buffer)
        if self._resumed is not None:
            spent = await self._restore("resume", self._resumed)
            self._began -= spent
            await self._push()

    # --- the loop

    async def _to_the_end(self, examples: ExampleStore) -> None:
        """Train, evaluate, write the final model; from the last checkpoint again if the learner is lost."""
        evaluated = self._config.evaluation.tasks > 0
        while True:
            try:
                if evaluated and self._state.update == 0:
                    await self._evaluate_missing("evaluating before training")
                await self._train(examples)
                if evaluated:
                    await self._evaluate_missing("evaluating after training")
                self._view.phase("writing the final model")
                await self._watch.thread(self._system.learner.final_model, str(self._run.final_model))
                return
            except LearnerError as error:
                await self._recover(error)

    async def _train(self, examples: ExampleStore) -> None:
        config, state, watch = self._config, self._state, self._watch
        self._view.phase("training")
        watch.moved()
        while state.update < config.learner.updates:
            await watch.look()
            waited = time.monotonic()
            groups = await self._next_groups()
            again = await self._admission.draw(state)
            self._whole = False
            started = time.monotonic()
            trained = state.lineage
            result = await watch.thread(
                self._system.learner.update,
                [list(g.trials) for g in groups],
                trained.version,
                [list(g.trials) for g in again],
                self._feed.rows(state.update) if self._feed is not None else (),
            )
            updated = time.monotonic()
            for outcome, ids in outcomes(groups, result).items():
                state.consumed = await asyncio.to_thread(
                    self._system.buffer.finish_groups, ids, outcome, hold=True
                )
            state.lineage = trained.trained(result.version)
            state.update += 1
            push: dict[str, float] = {}
            if result.applied and state.update % config.weights.every == 0:
                push = await self._push()
            hold("driver.issue")
            # After the push, so that what is issued now is played with the new weights from its first token.
            await self._admission.issue(state)
            record = make_record(
                groups,
                result,
                update=state.update,
                t=time.monotonic() - self._began,
                age=trained.age,
                wait_s=started - waited,
                update_s=updated - started,
                push_s=time.monotonic() - updated,
                rollout_idle=self._monitor.totals.idle_share,
                max_episodes=config.rollout.episodes,
                replayed=len(again),
                tip_tokens=self._tip_tokens(),
                threshold=config.advice.threshold,
            )
            self._learner_cpu_s += result.metrics.get("cpu_s", 0.0)
            self._writer.append(record)
            self._whole = True
            self._monitor.updated(record, push, result.metrics, applied=result.applied)
            by_ticket = {r.ticket: r for r in result.records}
            for trial in (trial for group in groups for trial in group.trials):
                examples.offer(trial, state.update, _credit(by_ticket.get(trial.ticket), result, record))
            self._note_empty(record)
            if state.update % config.learner.checkpoint_every == 0 or state.update == config.learner.updates:
                await self._save()
            if config.evaluation.every and state.update % config.evaluation.every == 0:
                await self._evaluate_missing("evaluating")
                self._view.phase("training")

    def _tip_tokens(self) -> int:
        """Sampled for tips since the last call, as far as it is known."""
        before, self._tips_counted = self._tips_counted, self._monitor.totals.tips.get("tokens", 0)
        return max(0, self._tips_counted - before)

    async def _next_groups(self) -> list[Group]:
        """Complete groups for one update, in the order of their submission."""
        while True:
            await self._admission.issue(self._state)
            groups = await self._admission.take(self._state)
            if groups:
                self._watch.moved()
                return groups
            await self._watch.look()
            self._watch.check_stall(self._state.update + 1, f"{self._admission.online} complete groups")

    async def _push(self) -> dict[str, float]:
        """Publish the learner's weights and give them to every engine. Returns seconds by phase."""
        began = time.monotonic()
        version, system = self._state.lineage.version, self._system
        # First, so that a number which may be known to anybody is never given to other weights.
        await asyncio.to_thread(system.buffer.set_cursor, PUBLISHED, version)
        update = await self._watch.thread(system.learner.publish, version, system.engine_names())
        published = time.monotonic()
        phases = await self._watch.guard(system.push(update))
        return {"publish": published - began, "total": time.monotonic() - began, **phases}

    # --- checkpoints and the way back to them

    async def _save(self) -> None:
        """A checkpoint; what was consumed before it is gone for good."""
        state, began = self._state, time.monotonic()
        await self._watch.thread(*self._checkpointing())
        took = time.monotonic() - began
        self._flag.save_took(took)
        log.info("checkpoint of update %d in %.2f s", state.update, took)
        self._saved = state.update
        await asyncio.to_thread(self._system.buffer.settle, state.consumed)

    def _checkpointing(self) -> tuple[Any, ...]:
        state = self._state
        extra = {**state.stored(), "seed": self._config.seed}
        return self._system.learner.save_checkpoint, str(self._run.checkpoints), state.update, extra

    async def _save_on_the_way_out(self) -> None:
        """After a Ctrl-C or a stop, if there is time for it: a resume then goes on from here. An unfinished
        one is passed over by a resume."""
        if not self._whole or self._state.update == self._saved:
            return
        self._view.phase("saving a checkpoint")
        began = time.monotonic()
        try:
            await asyncio.wait_for(asyncio.to_thread(*self._checkpointing()), self._flag.save_s())
        except (TimeoutError, AgentMemError) as error:
            log.warning("no checkpoint on the way out: %s: %s", type(error).__name__, error)
        else:
            self._view.note(
                f"checkpoint of update {self._state.update} in {time.monotonic() - began:.1f} s, "
                f"{self._flag.seconds_since():.1f} s after the signal"
            )

    async def _recover(self, cause: LearnerError) -> None:
        """A new learner, from the newest checkpoint; raises BudgetError when the restarts are spent."""
        while True:
            log.warning("%s", cause)
            self._view.phase("restarting the learner")
            try:
                stored = await self._watch.guard(self._system.restart_learner(cause))
                await self._restore("learner restart", stored)
                await self._push()
            except LearnerError as again:
                cause = again
            else:
                self._system.drop_old_snapshots()
                return

    async def _restore(self, what: str, stored: dict[str, Any]) -> float:
        """Go back to a checkpoint's state. Returns the seconds that the run had spent when it was lost."""
        buffer, issued = self._system.buffer, self._state.next_group
        state = RunState.of(stored)
        state.next_group = max(issued, state.next_group)
        published = int(await asyncio.to_thread(buffer.get_cursor, PUBLISHED) or 0)
        state.lineage = state.lineage.restored(published)
        back = await asyncio.to_thread(buffer.recover_groups)
        await asyncio.to_thread(buffer.settle, state.consumed)  # a death between checkpoint and settling
        again = await asyncio.to_thread(buffer.rewind, state.consumed)
        await asyncio.to_thread(drop_unfinished, buffer)
        self._writer.close()
        spent = truncate_after(self._run.metrics_path, state.update)
        truncate_lines(self._run.trials_path, state.update)
        self._writer = MetricsWriter(self._run.metrics_path)
        self._state = state
        self._whole, self._saved = True, state.update
        self._event(
            what,
            f"update {state.update}, version {state.lineage.version}; "
            f"{again} groups trained later and {back} taken are back",
        )
        return spent

    # --- evaluation

    async def _evaluate_missing(self, what: str) -> None:
        """Evaluate the conditions that this update hasn't been evaluated under yet."""
        update = self._state.update
        done = {(r.update, r.condition) for r in evals_of(read_records(self._run.metrics_path))}
        evaluated: list[Condition] = []
        for condition in CONDITIONS:
            if condition not in self._config.evaluation.conditions or (update, condition) in done:
                continue
            text = f"{what}, {condition.replace('_', ' ')}"

            async def tick(trials: int, total: int, text: str = text) -> None:
                self._view.phase(text, trials, total)
                await self._watch.look()

            self._monitor.evaluating = True
            try:
                found = await evaluate(
                    self._config, self._system.buffer, self._held_out, condition, update, tick
                )
            finally:
                self._monitor.evaluating = False
            # Before the record: what has one isn't played again after a resume.
            with TrialWriter(self._run.trials_path) as lines:
                lines.append(found.lines)
            self._writer.append(found.record)
            evaluated.append(condition)
        if evaluated:
            played = await asyncio.to_thread(read_lines, self._run.trials_path)
            gap = await asyncio.to_thread(gap_record, played, update, self._config.evaluation.episodes)
            if gap is not None:
                self._writer.append(gap)
                self._monitor.memory_gap(gap)
            advised = advice_record(played, update)
            if advised is not None:
                self._writer.append(advised)
                self._monitor.advised(advised)
        self._watch.moved()

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

"""`agentmem arms TARGET`: hints of nine origins for one frozen agent, on the same held-out tasks.

    none          nobody is asked
    untrained     the memory policy before any training, made to give a hint
    rag           the hint of the bank's nearest record
    rag-abstain   the same, if it is near enough: how near was learnt on training tasks
    memrl         of the near records the one with the best similarity and learnt value
    stage1        the memory policy after Stage 1, made to give a hint
    full          the memory policy after Stage 2: it decides, and writes
    full-always   the same, made to give a hint
    oracle        per task the better of none and full-always, known afterwards: an upper bound

`none` is always played first: it shows what the others are asked about. Arms whose model is the same run on
the same engines; looked-up hints need none. Interrupted, the same command goes on (`playing`).
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.app.evaluation.arms.checking import Asked, checked, settled
from agentmem.app.evaluation.arms.plan import LOOKED_UP, WRITTEN, scripted
from agentmem.config import unadvised
from agentmem.failures import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from agentmem.app.evaluation.arms.fitting import LookUp
    from agentmem.app.evaluation.arms.parts import Parts
    from agentmem.app.evaluation.arms.playing import Book, Player
    from agentmem.app.live.session import Session
    from agentmem.app.reporting.rundir import RunDir
    from agentmem.memory.arms.choice import Rule
    from agentmem.memory.arms.shelf import Shelf


def run_arms(
    which: str,
    *,
    bank: Path,
    out: Path,
    arms: str | None = None,
    stage1: str | None = None,
    full: str | None = None,
    seed: int = 0,
    tasks: int | None = None,
    fit_tasks: int = 64,
    known: Sequence[Path] = (),
    overrides: Sequence[str] = (),
    console: Console | None = None,
) -> Path:
    """Play what is missing and print the tables. Raises ConfigError; SystemExit(130) after a Ctrl-C."""
    from rich.console import Console

    from agentmem.app.evaluation.arms.reading import report_of
    from agentmem.app.evaluation.arms.table import as_text

    asked = checked(
        which,
        bank=bank,
        out=out,
        arms=arms,
        stage1=stage1,
        full=full,
        seed=seed,
        tasks=tasks,
        fit_tasks=fit_tasks,
        known=known,
        overrides=overrides,
    )
    console = console or Console()
    with _alone_in(out):
        settled(asked)
        if not _finished(asked):
            _play_in_session(asked, console)
    for text in (as_text(report_of([out])), str(out)):
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    return out


@contextmanager
def _alone_in(out: Path) -> Iterator[None]:
    """The directory, made if it isn't there, for one command at a time."""
    from filelock import FileLock, Timeout

    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = FileLock(out / ".lock", timeout=0).acquire()
    except Timeout:
        raise ConfigError(f"--out {out}: another agentmem arms is at work there") from None
    except OSError as error:
        raise ConfigError(f"--out {out}: can't write there: {error.strerror}") from error
    with lock:
        yield


def _play_in_session(asked: Asked, console: Console) -> None:
    from agentmem.app.live.interrupt import INTERRUPTED_EXIT, Interrupted
    from agentmem.app.live.session import session
    from agentmem.app.reporting.rundir import RunDir
    from agentmem.config import to_yaml

    out = asked.out
    (out / "config.yaml").write_text(to_yaml(asked.config), encoding="utf-8")
    run = RunDir.create("arms", out / "parts")
    try:
        with session(asked.config, run, console, updates=0, learns=False) as live:
            asyncio.run(_play(asked, run, live))
    except (Interrupted, KeyboardInterrupt):
        told = f"Interrupted; the same command goes on with what is in {out}"
        console.print(told, highlight=False, soft_wrap=True)
        raise SystemExit(INTERRUPTED_EXIT) from None
    finally:
        shutil.rmtree(run.replay_dir, ignore_errors=True)


def _finished(asked: Asked) -> bool:
    """Whether every arm has a line of every task already."""
    from agentmem.app.evaluation.arms.playing import TRIALS, lines_in

    done = {(line.condition, line.instance) for line in lines_in(asked.out / TRIALS)}
    return all((arm, instance) in done for arm in asked.arms for instance in chosen_instances(asked))


def chosen_instances(asked: Asked) -> list[str | int]:
    """The held-out tasks, the same for every arm and seed."""
    from agentmem.evaluation.held_out import evaluation_instances
    from envs.registry import instances

    env, evaluation = asked.config.env, asked.config.evaluation
    held_out = instances(env.name, env.options, "eval")
    return evaluation_instances(held_out, evaluation.tasks, evaluation.seed)


async def _play(asked: Asked, run: RunDir, live: Session) -> None:
    from agentmem.app.evaluation.arms.playing import FIT, SITUATIONS, TRIALS, Book, Known, Player, SeenBook

    config, out = asked.config, asked.out
    models = {**asked.models, "untrained": live.models["memory"]}
    if "untrained" in asked.arms:
        settled(asked, models["untrained"])
    chosen = chosen_instances(asked)
    known = Known(scripted(config))
    for folder in (out, *asked.known):
        known.read(folder)
    with ExitStack() as stack:
        seen = stack.enter_context(SeenBook(out / SITUATIONS))
        book, fits = Book(out / TRIALS, asked.seed), Book(out / FIT, asked.seed)
        stack.callback(book.close)
        stack.callback(fits.close)
        stage = _Stage(asked, run, live, Player(config, known, seen), book, fits, chosen)
        await stage.without_model()
        for name, model in models.items():
            await stage.with_model([arm for arm in asked.arms if WRITTEN.get(arm) == name], model)
        left = {arm: len(stage.missing(arm)) for arm in asked.arms}
        failed = ", ".join(f"{count} of {arm}" for arm, count in left.items() if count)
        if failed:
            live.view.note(f"trials that failed, which the same command plays again: {failed}")


@dataclass(frozen=True, slots=True)
class _Stage:
    """Everything that is there while arms are played."""

    asked: Asked
    run: RunDir
    live: Session
    player: Player
    book: Book
    fits: Book
    chosen: Sequence[str | int]

    def missing(self, arm: str) -> list[str | int]:
        """Held-out tasks that it has no line of."""
        return self.player.missing(self.book, arm, self.chosen)

    async def without_model(self) -> None:
        """`none`, and the arms that look up."""
        from agentmem.app.evaluation.arms.parts import running
        from agentmem.app.evaluation.arms.playing import Job

        arms = [arm for arm in self.asked.arms if arm in ("none", *LOOKED_UP)]
        if not any(self.missing(arm) for arm in arms):
            return
        config = unadvised(self.asked.config)
        async with running(config, self.run, self.live, self.live.models) as parts:
            await self.player.play(parts, self.book, self.chosen, Job("none", None, "none"))
            looked_up = [arm for arm in arms if arm != "none" and self.missing(arm)]
            if looked_up:
                await self._look_up(parts, looked_up)

    async def _look_up(self, parts: Parts, arms: Sequence[str]) -> None:
        from agentmem.app.evaluation.arms.fitting import fit_instances, fitted_gate, fitted_values
        from agentmem.app.evaluation.arms.playing import Job
        from agentmem.memory.arms.choice import Nearest

        asked, player, fits, view = self.asked, self.player, self.fits, self.live.view
        view.phase("embedding the bank")
        shelf, look_up = await parts.watch.thread(_shelf, asked, self.live.models["memory"])
        train = fit_instances(asked.config, asked.fit_tasks, asked.seed)
        for arm in arms:
            rule: Rule = Nearest()
            if arm == "rag-abstain":
                rule = gate = await fitted_gate(parts, player, fits, look_up, train)
                view.note(f"rag-abstain: hints from a cosine of {gate.threshold:.3f} on")
            elif arm == "memrl":
                rule = await fitted_values(parts, player, fits, look_up, shelf, train)
            await player.play(parts, self.book, self.chosen, Job(arm, look_up(rule, True), arm))

    async def with_model(self, arms: Sequence[str], model: Path) -> None:
        """The arms that one memory policy writes for."""
        from agentmem.app.evaluation.arms.asking import Written
        from agentmem.app.evaluation.arms.parts import running
        from agentmem.app.evaluation.arms.playing import Job

        if not any(self.missing(arm) for arm in arms):
            return
        models = {**self.live.models, "memory": model}
        async with running(self.asked.config, self.run, self.live, models) as parts:
            for arm in arms:
                source = Written(parts, "free" if arm == "full" else "generate")
                await self.player.play(parts, self.book, self.chosen, Job(arm, source, arm))


def _shelf(asked: Asked, tokenizer: Path) -> tuple[Shelf, LookUp]:
    """The embedded bank, and sources over it."""
    from actors.rollout.env_wire import EnvSettings
    from agentmem.app.evaluation.arms.asking import LookedUp
    from agentmem.chat import ChatCodec
    from agentmem.memory.arms.shelf import Shelf
    from agentmem.memory.embedding import CachedEmbedder, load_embedder
    from envs.registry import parts

    config = asked.config
    shelf = Shelf(asked.records, CachedEmbedder(load_embedder(config.memory.embedder)))
    style = EnvSettings.named(config.env.name, config.env.options, config.env.prompting).style()
    codec = ChatCodec(str(tokenizer))
    start = int(codec.bos_token_id is not None)

    def tokens_of(text: str) -> int:
        return len(codec.encode(text)) - start

    found = parts(config.env.name, config.env.options, "eval")
    environments = {part.domain: part.environment for part in found}

    def look_up(rule: Rule, own: bool) -> LookedUp:
        return LookedUp(shelf, rule, config.env.name, style, tokens_of, own, environments)

    return shelf, look_up

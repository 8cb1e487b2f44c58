"""An arm's trials on a list of tasks: ask, play what isn't known, write the lines.

Files of a directory of arms: `trials.jsonl` (held-out tasks) and `fit.jsonl` (training tasks that something
was learnt on), a line a trial whose condition is the arm; `situations.jsonl`, what each task shows at first.
They grow by batches, and what they hold isn't played again. A trial that failed has no line: the next call
plays it.

A scripted agent does the same whenever it is given the same hint on the same task. So its trial under an
equal hint, of whatever arm, here or in a directory named by `--known`, stands for a new one; its line says so
(`remembered`). Trials of other agents are never remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from agentmem.app.evaluation.arms.asking import Said, Seen, Source
from agentmem.app.evaluation.arms.parts import Parts
from agentmem.app.evaluation.evaluate import batch_name
from agentmem.config import RunConfig
from agentmem.evaluation.lines import AdviceLine, TrialLine, TrialWriter, line_of, read_lines
from agentmem.failures import ConfigError
from agentmem.jsonl import LineWriter
from agentmem.trajectory import Mode, Split, Task, Ticket, Trial, TurnKind

TRIALS, FIT, SITUATIONS = "trials.jsonl", "fit.jsonl", "situations.jsonl"
_decoder = msgspec.json.Decoder(Seen)


@dataclass(slots=True)
class Known:
    """What was played and seen so far."""

    remembers: bool
    """The agent is a script."""
    trials: dict[tuple[str | int, str], TrialLine] = field(default_factory=dict)
    """(instance, hint) -> a trial."""
    situations: dict[str | int, Seen] = field(default_factory=dict)

    def add(self, lines: Iterable[TrialLine]) -> None:
        """Remember trials, if the agent allows it."""
        if self.remembers:
            for line in lines:
                hint = line.advice[0].hint if line.advice else ""
                self.trials.setdefault((line.instance, hint), line)

    def read(self, folder: Path) -> None:
        """All of a directory of arms. Raises ConfigError naming a bad line."""
        for name in (TRIALS, FIT):
            self.add(lines_in(folder / name))
        for seen in situations_in(folder / SITUATIONS):
            self.situations.setdefault(seen.instance, seen)


def lines_in(path: Path) -> list[TrialLine]:
    """Those of a file; none where there is none, or an empty one."""
    return read_lines(path) if path.is_file() and b"\n" in path.read_bytes() else []


def situations_in(path: Path) -> list[Seen]:
    """Raises ConfigError naming a bad line."""
    found = []
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(_decoder.decode(line))
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{path}, line {number}: {error}") from error
    return found


class Book:
    """A file of lines, open for more."""

    def __init__(self, path: Path, seed: int) -> None:
        self.seed = seed
        self._lines: dict[str, dict[str | int, TrialLine]] = {}
        for line in lines_in(path):
            self._lines.setdefault(line.condition, {})[line.instance] = line
        self._writer = TrialWriter(path)

    def of(self, arm: str) -> dict[str | int, TrialLine]:
        """An arm's lines by instance, in the order in which they were written."""
        return self._lines.setdefault(arm, {})

    def write(self, arm: str, lines: Sequence[TrialLine]) -> None:
        """Further ones."""
        self._writer.append(lines)
        self.of(arm).update({line.instance: line for line in lines})

    def close(self) -> None:
        """Idempotent."""
        self._writer.close()


class SeenBook(LineWriter):
    """The directory's own `situations.jsonl`, open for more: each task once."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._there = {seen.instance for seen in situations_in(path)}

    def note(self, seen: Seen) -> Seen:
        """Keep what a task shows at first; before its trial's line is written."""
        if seen.instance not in self._there:
            self._there.add(seen.instance)
            self.write([seen])
        return seen


@dataclass(frozen=True, slots=True)
class Job:
    """An arm to be played. `text`: what the view calls it."""

    arm: str
    source: Source | None
    """None: nobody is asked."""
    text: str
    after: Callable[[Sequence[TrialLine]], None] | None = None
    """Gets each batch's lines, in order."""
    at_once: int = 0
    """Bounds a batch; 0: as many as keep the agents busy."""


@dataclass(slots=True)
class Player:
    """Plays arms with the parts that run now."""

    config: RunConfig
    known: Known
    seen: SeenBook

    def missing(self, book: Book, arm: str, instances: Sequence[str | int]) -> list[str | int]:
        """What is still to be done. The arm `none` is done where its situation is there, too."""
        done = book.of(arm)
        return [i for i in instances if i not in done or (arm == "none" and i not in self.known.situations)]

    async def play(self, parts: Parts, book: Book, instances: Sequence[str | int], job: Job) -> None:
        """Do what is missing."""
        missing = self.missing(book, job.arm, instances)
        agents = self.config.agents
        size = job.at_once or 2 * agents.replicas * agents.trials_in_flight
        for first in range(0, len(missing), size):
            batch = missing[first : first + size]
            said = await self._ask(batch, job.source)
            done = len(instances) - len(missing) + first
            lines = await self._lines(parts, book.seed, job, batch, said, (done, len(instances)))
            book.write(job.arm, lines)
            self.known.add(lines)
            if job.after is not None:
                job.after(lines)

    async def _ask(self, batch: Sequence[str | int], source: Source | None) -> dict[str | int, Said]:
        """Of tasks whose situation is known; a task that `none` failed on stays without an answer."""
        seen = [self.known.situations[i] for i in batch if i in self.known.situations]
        if source is None or not seen:
            return {}
        return {one.instance: said for one, said in zip(seen, await source.ask(seen), strict=True)}

    async def _lines(
        self,
        parts: Parts,
        seed: int,
        job: Job,
        batch: Sequence[str | int],
        said: dict[str | int, Said],
        done: tuple[int, int],
    ) -> list[TrialLine]:
        found: dict[str | int, TrialLine] = {}
        fresh = []
        for instance in batch:
            answer = said.get(instance)
            if job.source is not None and answer is None:
                continue
            remembered = self.known.trials.get((instance, answer.line.hint if answer else ""))
            if remembered is not None and instance in self.known.situations:
                found[instance] = _again(remembered, job.arm, seed, answer)
                if job.source is None:
                    self.seen.note(self.known.situations[instance])
            else:
                fresh.append(instance)
        if fresh:
            tickets = self._tickets(job, fresh, said)
            asked = {ticket.id: ticket.task.instance for ticket in tickets}
            for trial in await parts.play(tickets, job.text, *done):
                instance = asked[trial.ticket]
                line = line_of(trial, job.arm, seed)
                if job.source is None:
                    self.known.situations[instance] = self.seen.note(_seen(trial))
                found[instance] = msgspec.structs.replace(line, advice=_advice(said.get(instance)))
        return [found[instance] for instance in batch if instance in found]

    def _tickets(self, job: Job, instances: Sequence[str | int], said: dict[str | int, Said]) -> list[Ticket]:
        batch = batch_name(0, job.arm)
        mode = Mode(
            method=self.config.method,
            episodes=self.config.evaluation.episodes,
            memory=self.config.rollout.memory,
            advice="" if job.source is None else job.source.branch,
        )
        return [
            Ticket(
                id=f"{batch}-{place:05d}-0",
                task=Task(environment=self.config.env.name, instance=instance, split=Split.EVAL, group=batch),
                member=0,
                mode=mode,
                advised=(said[instance].turn,) if instance in said else (),
            )
            for place, instance in enumerate(instances)
        ]


def _again(before: TrialLine, arm: str, seed: int, said: Said | None) -> TrialLine:
    """A remembered trial under another arm: the agent's part is the same, the advice's tokens are its own."""
    tokens = {kind: count for kind, count in before.tokens.items() if kind != TurnKind.ADVISE}
    prompt = 0  # scripted agents read none
    if said is not None:
        tokens[TurnKind.ADVISE.value] = len(said.turn.response_ids or ())
        prompt = len(said.turn.prompt_ids)
    return msgspec.structs.replace(
        before,
        condition=arm,
        seed=seed,
        tokens=tokens,
        prompt_tokens=prompt,
        advice=_advice(said),
        remembered=True,
    )


def _seen(trial: Trial) -> Seen:
    return Seen(
        instance=trial.task.instance,
        instruction=trial.instruction,
        observation=trial.episodes[0].initial_observation,
    )


def _advice(said: Said | None) -> list[AdviceLine]:
    return [] if said is None else [said.line]

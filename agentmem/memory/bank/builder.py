"""Building a bank: jobs in, records out, in the order of the jobs.

Promises:
- The bank is a function of the jobs and of the writer's answers. Answers are kept as they come, records are
  written in the order of the jobs; so a build that was interrupted anywhere and goes on ends with the file
  that an uninterrupted one writes, if the writer's answers are the same, and asks nothing twice.
- A job whose record is in the bank is done. A record that says the same of the same situation as another one
  isn't written.
- What a single job makes impossible (too long, refused, an answer without a hint) costs this job and is
  counted. What makes all of them impossible is raised, with everything kept that was answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from agentmem.chat.answer import Answer, ChatModel, Messages
from agentmem.failures import EndpointRefusal
from agentmem.memory.bank.files import BankFiles, question
from agentmem.memory.bank.grouping import Job
from agentmem.memory.bank.prompts import (
    PROMPT_VERSION,
    decisive_steps,
    hint_in,
    hint_prompt,
    said,
    zoom_prompt,
)
from agentmem.memory.bank.records import BankRecord, Tokens, seed_of

AHEAD = 4
"""Jobs begun for each request that the writer works on at once: a slow one in front doesn't stop the rest."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How the writer is asked. Records made under other settings have other ids."""

    hint_tokens: int = 256
    zoom_tokens: int = 512
    temperature: float = 0.2
    zoom: bool = True

    def told(self) -> tuple[object, ...]:
        """What a record's id depends on."""
        return (PROMPT_VERSION, self.hint_tokens, self.zoom_tokens, self.temperature, self.zoom)


class Tally(msgspec.Struct, kw_only=True):
    """What has become of the jobs, and of the requests."""

    jobs: int = 0
    present: int = 0
    """Their records were in the bank already."""
    written: int = 0
    duplicates: int = 0
    too_long: int = 0
    """Not even an outline of the traces fits the writer's context."""
    refused: int = 0
    """The endpoint wouldn't take the request."""
    empty: int = 0
    """The answer had no hint, or no full sentence before its limit."""
    cut: int = 0
    """Of those written: hints that reached their limit."""
    unzoomed: int = 0
    """Of those written: the zoom pass named no step, so the whole was shown."""
    asked: int = 0
    """Requests that were answered now ..."""
    remembered: int = 0
    """... and those whose answers were known."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Of the requests answered now, as far as the writer's server says."""

    @property
    def done(self) -> int:
        """Jobs that are over with."""
        return self.present + self.written + self.duplicates + self.too_long + self.refused + self.empty


@dataclass(frozen=True, slots=True)
class _Hint:
    text: str
    cut: bool
    unzoomed: bool
    answers: tuple[Answer, ...]


Progress = Callable[[Tally], None]


class Builder:
    """One build into open files."""

    def __init__(
        self, files: BankFiles, writer: ChatModel, asking: Asking, progress: Progress | None = None
    ) -> None:
        self._files, self._writer, self._asking = files, writer, asking
        self._progress: Progress = progress or (lambda tally: None)
        self._ids = {record.id for record in files.records}
        self._contents = {record.content for record in files.records}
        self._under_way: dict[str, asyncio.Lock] = {}
        self.tally = Tally()
        """Also after an error or a cancellation: what was done by then."""

    async def build(self, jobs: Sequence[Job]) -> Tally:
        """Do what isn't done. Raises what the writer raises, EndpointRefusal excepted."""
        tally = self.tally
        tally.jobs = len(jobs)
        waiting: deque[tuple[str, Job, asyncio.Task[_Hint | str]]] = deque()
        try:
            for job in jobs:
                name = job.name(self._writer.model, self._asking.told())
                if name in self._ids:
                    tally.present += 1
                    continue
                self._ids.add(name)
                waiting.append((name, job, asyncio.create_task(self._hint(job))))
                if len(waiting) >= AHEAD * self._writer.concurrency:
                    await self._take(waiting)
            while waiting:
                await self._take(waiting)
        finally:
            tasks = [task for _, _, task in waiting]
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
        self._progress(tally)
        return tally

    async def _take(self, waiting: deque[tuple[str, Job, asyncio.Task[_Hint | str]]]) -> None:
        """Write the record of the oldest job begun."""
        name, job, task = waiting[0]
        hint = await task
        waiting.popleft()
        tally = self.tally
        if isinstance(hint, str):
            setattr(tally, hint, getattr(tally, hint) + 1)
        else:
            record = self._record(name, job, hint)
            if record.content in self._contents:
                tally.duplicates += 1
            else:
                self._files.append(record)
                self._contents.add(record.content)
                tally.written += 1
                tally.cut += hint.cut
                tally.unzoomed += hint.unzoomed
        self._progress(tally)

    async def _hint(self, job: Job) -> _Hint | str:
        """The hint, or the tally's name for why there is none."""
        asking, zoomed, answers = self._asking, None, []

        def fits(limit: int) -> Callable[[Messages], bool]:
            return lambda messages: self._writer.fits(messages, limit)

        try:
            if asking.zoom:
                prompt = zoom_prompt(job, fits(asking.zoom_tokens))
                if prompt is None:
                    return "too_long"
                answers.append(await self._ask(prompt, asking.zoom_tokens))
                zoomed = said(answers[0])
            prompt = hint_prompt(job, zoomed, asking.hint_tokens, fits(asking.hint_tokens))
            if prompt is None:
                return "too_long"
            answers.append(await self._ask(prompt, asking.hint_tokens))
        except EndpointRefusal:
            return "refused"
        text, cut = hint_in(answers[-1], asking.hint_tokens)
        if not text:
            return "empty"
        return _Hint(text, cut, zoomed is not None and not decisive_steps(job, zoomed), tuple(answers))

    async def _ask(self, messages: Messages, max_tokens: int) -> Answer:
        temperature = self._asking.temperature
        key = question(self._writer.model, messages, max_tokens, temperature)
        async with self._under_way.setdefault(key, asyncio.Lock()):  # tasks may look alike
            known = self._files.remembered(key)
            if known is not None:
                self.tally.remembered += 1
                return known
            answer = await self._writer.answer(messages, max_tokens=max_tokens, temperature=temperature)
            self._files.remember(key, answer)
        self.tally.asked += 1
        self.tally.prompt_tokens += answer.prompt_tokens or 0
        self.tally.completion_tokens += answer.completion_tokens or 0
        return answer

    def _record(self, name: str, job: Job, hint: _Hint) -> BankRecord:
        of = job.situation
        successes = sum(trace.success for trace in job.traces)
        return BankRecord(
            id=name,
            domain=of.domain,
            task_id=of.task_id,
            seed=seed_of(of.task_id),
            split=job.traces[0].split,
            q=of.q,
            o=of.o,
            m=hint.text,
            sources=tuple(trace.source for trace in job.traces),
            successes=successes,
            failures=len(job.traces) - successes,
            writer=self._writer.model,
            prompt_version=PROMPT_VERSION,
            tokens=Tokens(
                prompt=_sum([answer.prompt_tokens for answer in hint.answers]),
                completion=_sum([answer.completion_tokens for answer in hint.answers]),
            ),
            cut=hint.cut,
        )


def _sum(counts: Sequence[int | None]) -> int | None:
    """None if one of them isn't known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None

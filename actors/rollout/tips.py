"""EMPO²'s tips in an agent: looked up for the prompts of trials, and written beside them.

Promises:
- Reading is local: a book is brought up to date from the store as an episode begins (readers of one book
  share one look), and embeddings of what many trials ask at once are made in one batch, on another thread.
- Writing is off the critical path: neither the next episode nor the trial's commit waits for it. Of more than
  `pending` tips at once, the rest isn't written; a tip that can't be had (engine or store failed, prompt too
  long, nothing written) is left out. All are counted. A bug surfaces with the next trial.
- A tip's source is (trial, episode), so one that is written again by another attempt doesn't count twice.
- A trial without a namespace neither reads nor writes, so evaluation leaves no trace.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol, TypeVar

from actors.rollout.policy import Conversation
from actors.rollout.trial import record_of
from agentmem.failures import InfrastructureError
from agentmem.memory.embedding import Embedder, FloatRows
from agentmem.memory.tips import Tip, TipBook, encode_key
from agentmem.trajectory import Episode, Task, Ticket, TurnKind
from envs.base import PromptStyle, View

log = logging.getLogger(__name__)

T = TypeVar("T")

BOOKS = 256
"""Books that are kept in step here; of more, the one that was used longest ago is read again when needed."""


class TipSource(Protocol):
    """Where all agents' tips are: the replay buffer."""

    def add_tips(self, namespace: str, task: str, tips: Sequence[Tip], source: str) -> int: ...

    def read_tips(self, namespace: str, task: str, after: int = 0) -> tuple[int, Sequence[Tip], int]: ...


@dataclass(frozen=True, slots=True)
class TipRules:
    """The settings `memory.tips` as far as an agent needs them."""

    key: Literal["observation", "chat"] = "observation"
    scope: Literal["instance", "environment"] = "instance"
    capacity: int = 1000
    recalled: int = 10
    min_cosine: float = 0.5
    pending: int = 256


@dataclass(slots=True)
class TipCounts:
    """What became of tips in this process."""

    written: int = 0
    tokens: int = 0
    """Sampled for tips."""
    empty: int = 0
    too_long: int = 0
    """The prompt that asks for the tip didn't fit."""
    failed: int = 0
    skipped: int = 0
    """Not written, as too many were under way."""
    recalled: int = 0
    """Tips put into prompts."""


def book_of(task: Task, scope: str) -> str:
    """The name of the book that a task's tips stand in."""
    return task.world if scope == "environment" else f"{task.environment}:{task.instance}"


class AgentTips:
    """All books and all writing of one agent."""

    def __init__(self, store: TipSource, embedder: Embedder, rules: TipRules) -> None:
        self.rules, self.counts = rules, TipCounts()
        self._store = store
        self._embedder = embedder
        self._books: OrderedDict[tuple[str, str], TipBook] = OrderedDict()
        self._reading: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._waiting: list[tuple[Sequence[str], asyncio.Future[FloatRows]]] = []
        self._embedding: asyncio.Task[None] | None = None
        self.writing: set[asyncio.Task[None]] = set()
        """Tips under way."""
        self._bug: Exception | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embedder")
        self._io = ThreadPoolExecutor(2, thread_name_prefix="tips")

    def of(self, ticket: Ticket, conversation: Conversation, style: PromptStyle) -> TrialTips | None:
        """The tips of one trial; None if it has no namespace. Raises what went wrong with an earlier tip."""
        if self._bug is not None:
            raise self._bug
        if not ticket.mode.tips:
            return None
        return TrialTips(self, ticket, conversation, style)

    @property
    def pending(self) -> int:
        """Tips under way."""
        return len(self.writing)

    async def settle(self, timeout_s: float) -> None:
        """Give the tips under way a bounded time, then leave them out."""
        if self.writing:
            _, late = await asyncio.wait(self.writing, timeout=timeout_s)
            for task in late:
                task.cancel()
            self.counts.failed += len(late)
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._io.shutdown(wait=False, cancel_futures=True)

    # --- reading

    async def refresh(self, key: tuple[str, str]) -> None:
        """Bring a book up to date; whoever asks meanwhile waits for the same look."""
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.ensure_future(self._read(key))
            reading.add_done_callback(lambda _: self._reading.pop(key, None))
        await asyncio.shield(reading)

    async def _read(self, key: tuple[str, str]) -> None:
        book = self.book(key)
        version, tips, first = await self._in(
            self._io, lambda: self._store.read_tips(*key, after=book.version)
        )
        book.follow(version, tips, first)

    def book(self, key: tuple[str, str]) -> TipBook:
        """A book as far as it is known here."""
        book = self._books.get(key)
        if book is None:
            book = self._books[key] = TipBook(key[1], self.rules.capacity)
            while len(self._books) > BOOKS:
                self._books.popitem(last=False)
        else:
            self._books.move_to_end(key)
        return book

    # --- embedding

    async def embed(self, texts: Sequence[str]) -> FloatRows:
        """[n, dimension]. Calls that come while a batch is made go together with the next one."""
        future: asyncio.Future[FloatRows] = asyncio.get_running_loop().create_future()
        self._waiting.append((texts, future))
        if self._embedding is None or self._embedding.done():
            self._embedding = asyncio.ensure_future(self._embed_all())
        return await future

    async def _embed_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            texts = [text for some, _ in batch for text in some]
            try:
                rows = await self._in(self._thread, partial(self._embedder.embed, texts))
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            at = 0
            for some, future in batch:
                if not future.done():
                    future.set_result(rows[at : at + len(some)])
                at += len(some)

    # --- writing

    def write(self, job: Coroutine[object, object, None]) -> None:
        """Run a tip's writing beside everything else, if there is room for it."""
        if len(self.writing) >= self.rules.pending:
            job.close()
            self.counts.skipped += 1
            return
        task = asyncio.ensure_future(job)
        self.writing.add(task)
        task.add_done_callback(self._written)

    def _written(self, task: asyncio.Task[None]) -> None:
        self.writing.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, InfrastructureError):
            self.counts.failed += 1
            log.warning("a tip was not written: %s", error)
        elif isinstance(error, Exception):
            self._bug = error

    async def add(self, key: tuple[str, str], tips: Sequence[Tip], source: str) -> None:
        """Store the tips of one episode."""
        await self._in(self._io, lambda: self._store.add_tips(*key, tips, source))
        self.counts.written += 1

    async def _in(self, thread: ThreadPoolExecutor, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(thread, call)


class TrialTips:
    """The `Tips` of one trial (protocols.py)."""

    __slots__ = ("_all", "_conversation", "_key", "_style", "_ticket")

    def __init__(
        self, all_tips: AgentTips, ticket: Ticket, conversation: Conversation, style: PromptStyle
    ) -> None:
        self._all, self._ticket, self._conversation, self._style = all_tips, ticket, conversation, style
        self._key = (ticket.mode.tips, book_of(ticket.task, all_tips.rules.scope))

    async def open(self) -> None:
        """See Tips."""
        await self._all.refresh(self._key)

    async def recall(self, view: View) -> tuple[tuple[str, ...], str]:
        """See Tips."""
        rules, book = self._all.rules, self._all.book(self._key)
        snapshot = book.snapshot
        if not len(book):
            return (), snapshot
        (query,) = await self._all.embed([self._situation(view)])
        found = book.recall(query, rules.recalled, rules.min_cosine)
        self._all.counts.recalled += len(found)
        return tuple(tip.text for tip in found), snapshot

    def finished(self, episode: Episode, view: View) -> None:
        """See Tips."""
        if episode.turns:
            self._all.write(self._write(episode, view, self._conversation.fork()))

    async def _write(self, episode: Episode, view: View, conversation: Conversation) -> None:
        counts, style = self._all.counts, self._style
        record = record_of(episode)
        reply = await conversation.respond(style.tip_prompt(view, record), TurnKind.TIP)
        if reply is None and view.tips:
            alone = style.tip_prompt(replace(view, tips=()), record)
            reply = await conversation.respond(alone, TurnKind.TIP)
        if reply is None:
            counts.too_long += 1
            return
        counts.tokens += len(reply.response_ids or ())
        parsed = style.parse_tip(reply.text)
        if parsed.invalid or not parsed.text:
            counts.empty += 1
            return
        steps = view.history
        keys = await self._all.embed(
            [
                self._situation(replace(view, observation=step.observation, history=steps[:t]))
                for t, step in enumerate(steps)
            ]
        )
        score = episode.score if episode.score is not None else (episode.reward or 0.0)
        source = f"{self._ticket.id}:{episode.index}"
        tips = [
            Tip(
                text=parsed.text,
                action="; ".join(step.actions),
                score=score,
                step=t,
                source=source,
                key=encode_key(keys[t]),
            )
            for t, step in enumerate(steps)
        ]
        await self._all.add(self._key, tips, source)

    def _situation(self, view: View) -> str:
        """What tips are kept and found by: the observation, or the prompt without any tips."""
        if self._all.rules.key == "observation":
            return view.observation
        prompt = self._style.act_prompt(replace(view, tips=(), admissible=None))
        return prompt if isinstance(prompt, str) else "\n\n".join(message.content for message in prompt)

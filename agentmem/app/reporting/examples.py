"""Example trials of a run: a bounded, readable sample, kept in `examples.msgpack` of the run's directory.

Kept are the `FIRST` trials offered (play before learning), and of the later ones the newest `LATEST` of any
kind and the newest `TURNED` that were solved after a failed episode (memory at work); of one update at most
`PER_UPDATE` of each, so that they spread over several. An offer costs microseconds; prompts are decoded only
for what is written. The file is replaced as a whole, at most every `interval_s`, and at `close`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from agentmem.failures import AgentMemError
from agentmem.trajectory import Trial, decode_trial, encode_trial

FIRST, LATEST, TURNED, PER_UPDATE = 10, 20, 20, 2

Credit = dict[str, Any]
"""The learner's record of a trial: `advantages` (one for each turn in order of play, None: no gradient),
`version` (of the weights after that update), `loss_share` (of the update's loss weight, 0 to 1); any more
keys are shown as they are."""

Decode = Callable[[str, Sequence[int]], str]
"""(policy, token ids) -> text."""


def decoder(models: Mapping[str, Path]) -> Decode:
    """From the directories of the policies' models. Of a policy without any there is nothing to decode."""
    from agentmem.chat import ChatCodec

    codecs = {policy: ChatCodec(str(path)) for policy, path in models.items()}
    return lambda policy, ids: codecs[policy].decode(ids) if policy in codecs else ""


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """A trial with what the learner made of it. `prompts`: one for each turn in order of play, if decoded."""

    update: int
    trial: Trial
    credit: Credit | None = None
    prompts: tuple[str, ...] | None = None

    @property
    def turned(self) -> bool:
        """Solved, though not in the first episode."""
        return self.trial.success and not self.trial.episodes[0].success


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    """An example in the file; the trial carries its own schema version."""

    update: int
    trial: bytes
    credit: Credit | None
    prompts: tuple[str, ...] | None


_decoder = msgspec.msgpack.Decoder(list[_Stored])


def load_examples(path: Path) -> list[Example]:
    """The examples of a file, in the order of their updates. Raises AgentMemError if it is no such file."""
    if not path.is_file():
        raise AgentMemError(f"{path}: not found: the run has recorded no example trial yet")
    try:
        stored = _decoder.decode(path.read_bytes())
    except msgspec.MsgspecError as error:
        raise AgentMemError(f"{path} holds no example trials: {error}") from error
    return [
        Example(update=s.update, trial=decode_trial(s.trial), credit=s.credit, prompts=s.prompts)
        for s in stored
    ]


class ExampleStore:
    """Chooses and writes examples. An existing file (a resumed run's) is gone on with."""

    def __init__(
        self,
        path: Path,
        decode: Decode | None = None,
        interval_s: float = 15.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._decode = decode
        self._interval = interval_s
        self._now = now
        self._written = now()
        self._dirty = False
        self._texts: dict[str, tuple[str, ...]] = {}
        """Ticket -> decoded prompts of the examples last written."""
        self._newest = -1
        self._first: list[Example] = []
        self._latest: list[Example] = []
        self._turned: list[Example] = []
        for example in load_examples(path) if path.is_file() else ():
            self._take(example)

    def offer(self, trial: Trial, update: int, credit: Credit | None = None) -> None:
        """Consider a trial that `update` consumed. Trials without an episode are left out."""
        if trial.episodes and self._take(Example(update=update, trial=trial, credit=credit)):
            self._dirty = True
        if self._dirty and self._now() - self._written >= self._interval:
            self.save()

    def examples(self) -> list[Example]:
        """What is kept now, oldest update first, each trial once."""
        kept = {e.trial.ticket: e for e in (*self._first, *self._turned, *self._latest)}
        return sorted(kept.values(), key=lambda e: (e.update, e.trial.ticket))

    def save(self) -> None:
        """Write the file."""
        kept = self.examples()
        self._texts = {e.trial.ticket: p for e in kept if (p := self._prompts(e)) is not None}
        stored = [
            _Stored(
                update=e.update,
                trial=encode_trial(e.trial),
                credit=e.credit,
                prompts=self._texts.get(e.trial.ticket),
            )
            for e in kept
        ]
        part = self._path.with_name(self._path.name + ".part")
        part.write_bytes(msgspec.msgpack.encode(stored))
        os.replace(part, self._path)
        self._dirty = False
        self._written = self._now()

    def close(self) -> None:
        """Write what is left to write."""
        if self._dirty:
            self.save()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _take(self, example: Example) -> bool:
        if example.update <= self._newest:  # after a resume a ticket may be played again
            for kept in (self._first, self._latest, self._turned):
                kept[:] = [e for e in kept if e.trial.ticket != example.trial.ticket]
        self._newest = max(self._newest, example.update)
        if len(self._first) < FIRST:
            self._first.append(example)
            return True
        taken = _push(self._latest, example, LATEST)
        return (example.turned and _push(self._turned, example, TURNED)) or taken

    def _prompts(self, example: Example) -> tuple[str, ...] | None:
        if example.prompts is not None or self._decode is None:
            return example.prompts
        known = self._texts.get(example.trial.ticket)
        if known is not None:
            return known
        turns = example.trial.turns()
        return tuple(self._decode(t.policy, t.prompt_ids) if t.prompt_ids else "" for t in turns)


def _push(kept: list[Example], example: Example, limit: int) -> bool:
    """Append unless its update has its share already; forget the oldest beyond the limit."""
    if sum(e.update == example.update for e in kept) >= PER_UPDATE:
        return False
    kept.append(example)
    del kept[:-limit]
    return True

"""The books of tips: what `agentmem.memory.tips` keeps for one task, for all processes of a run.

A namespace ("train", "adapt-7") has a book for each task. Invariants: entries of a book are numbered without
gaps, the last number is its version, and an entry never changes; so a version of a task names one content,
and never another one, also after the book was dropped and begun anew. Of a source only the first write
counts, as long as it is among the book's newest `tips_per_task` sources. A book holds `tips_per_task` entries
at most, all books together `tip_bytes`; above, the book that was written longest ago goes as a whole, and the
oldest entries of a book that is alone. Tips outlive the server's death and the run's, as all of the buffer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from agentmem.memory.tips import Tip
from agentmem.replay import lua
from agentmem.replay.codec import CodecError
from agentmem.replay.structs import RejectedError, TipStats
from agentmem.replay.table import Table
from agentmem.replay.wire import Arg

_DIGEST_BYTES = 16
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Tip)


class TipLog(NamedTuple):
    """What `read_tips` found, in the order that `TipBook.follow` takes."""

    version: int
    """Number of the book's newest entry."""
    entries: tuple[Tip, ...]
    """The newest ones, up to `version`."""
    first_kept: int
    """Number of the oldest entry that the book holds; `version + 1` if it holds none."""


class TipTable(Table):
    """Tips by namespace and task."""

    def add_tips(self, namespace: str, task: str, tips: Sequence[Tip], source: str) -> int:
        """Append the tips of one source (`<trial>:<episode>`) to the task's book; returns its version.

        Adding a source again changes nothing, whatever the tips are. An entry with the text, action and key
        of one that is held is dropped. Waits for a server without memory. Raises RejectedError, before
        anything is stored, for a tip of another source, or a key that isn't as long as the book's.
        """
        _check_names(namespace, task)
        if not source:
            raise RejectedError(f"tips of {namespace}/{task} were refused: they have no source")
        if not tips:
            return self.read_tips(namespace, task).version
        width = len(tips[0].key)
        args: list[Arg] = [namespace, task, source]
        args += [self.settings.tips_per_task, self.settings.tip_bytes, width]
        for tip in tips:
            if tip.source != source:
                raise RejectedError(
                    f"tips of {namespace}/{task} were refused: one is of {tip.source}, not of {source}"
                )
            if len(tip.key) != width:
                raise self._wrong_dimension(namespace, task, source, len(tip.key), width)
            args += [_digest(tip), _encoder.encode(tip)]
        found, version = self._insert_when_room(lua.ADD_TIPS, args)
        if found != width:
            raise self._wrong_dimension(namespace, task, source, width, found)
        return int(version)

    @staticmethod
    def _wrong_dimension(namespace: str, task: str, source: str, found: int, wanted: int) -> RejectedError:
        return RejectedError(
            f"tips of {namespace}/{task} were refused: {source} has a key of {found // 2} numbers, the "
            f"others have {wanted // 2} (was memory.embedder changed?)"
        )

    def read_tips(self, namespace: str, task: str, after: int = 0) -> TipLog:
        """What a book has got since version `after` (0: all that it holds).

        A reader keeps in step with `book.follow(*buffer.read_tips(namespace, book.task, book.version))`. A
        book that hasn't come to `after` is given from its start; one that isn't there is empty. Raises
        CodecError for an entry that can't be read.
        """
        _check_names(namespace, task)
        version, first, found = self._run(lua.READ_TIPS, namespace, task, after)
        entries = []
        for number, data in enumerate(found, version - len(found) + 1):
            try:
                entries.append(_decoder.decode(memoryview(data)[_DIGEST_BYTES:]))
            except msgspec.MsgspecError as error:
                raise CodecError(f"tip {number} of {namespace}/{task} is damaged: {error}") from error
        return TipLog(int(version), tuple(entries), int(first))

    def tip_stats(self, namespace: str) -> TipStats:
        """Totals of a namespace; all 0 if it has no book."""
        key = self.keys("tips:" + namespace)
        found: dict[bytes, bytes] = self.server.call(lambda: self.server.client.hgetall(key))
        return TipStats(**{name.decode(): int(value) for name, value in found.items()})

    def tip_namespaces(self) -> list[str]:
        """The namespaces that have a book."""
        books = self.server.call(lambda: self.server.client.zrange(self.keys("tips"), 0, -1))
        return sorted({book.partition(b":")[0].decode() for book in books})

    def drop_tips(self, namespace: str) -> int:
        """Forget all books of a namespace. Returns the number of their entries. Works on a full server."""
        return int(self._run(lua.DROP_TIPS, namespace))


def _digest(tip: Tip) -> bytes:
    """Names the text, action and key of a tip."""
    identity = _encoder.encode(tip.identity)
    return hashlib.blake2b(identity, digest_size=_DIGEST_BYTES).digest()


def _check_names(namespace: str, task: str) -> None:
    if not namespace or ":" in namespace:
        raise RejectedError(f"namespace {namespace!r} of tips: must not be empty or hold a colon")
    if not task:
        raise RejectedError(f"tips in {namespace}: their task has no name")

"""A bank's files while it is built: the bank, what its writer has answered, and the lock on both.

    bank.jsonl              records, in the order of the plan
    bank.jsonl.answers      every answer of the writer, as it came: nothing is asked twice
    .bank.jsonl.lock        held by the one build under way

Both are only appended to. A crash can tear the last line; opening cuts it off, and what it held is asked or
written again. A line that is wrong in the middle is refused, naming it, before anything is changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agentmem.chat.answer import Answer, Messages
from agentmem.failures import ConfigError
from agentmem.jsonl import LineWriter
from agentmem.memory.bank.records import BankRecord, parse


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    answer: Answer


_decoder = msgspec.json.Decoder(_Stored)


def answers_path(bank: Path) -> Path:
    """Where the answers of this bank's writer are."""
    return bank.with_name(bank.name + ".answers")


def question(model: str, messages: Messages, max_tokens: int, temperature: float) -> str:
    """Names a request: equal ones have the same answer."""
    told = msgspec.json.encode((model, messages, max_tokens, temperature))
    return hashlib.blake2b(told, digest_size=16).hexdigest()


class BankFiles:
    """An open build. Make it by `open_bank`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines, self.torn = _whole_lines(path)
        found, faults = parse(lines)
        if faults:
            raise ConfigError(f"{path}, {faults[0]}: a bank that is gone on with must be sound")
        self.records = [record for _, record in found]
        """All of the bank, in the order of the file."""
        answers = answers_path(path)
        lines, torn = _whole_lines(answers)
        self.torn += torn
        self._answers: dict[str, Answer] = {}
        for number, line in enumerate(lines, start=1):
            try:
                stored = _decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise ConfigError(f"{answers}, line {number}: no answer of a writer: {error}") from None
            self._answers[stored.key] = stored.answer
        self._writers: dict[Path, LineWriter] = {}
        for file in (path, answers):
            if file.exists():
                self._writer(file)  # cuts a torn line off

    def append(self, record: BankRecord) -> None:
        """One more record."""
        self._writer(self.path).write([record])
        self.records.append(record)

    def remembered(self, key: str) -> Answer | None:
        """What was answered to this question."""
        return self._answers.get(key)

    def remember(self, key: str, answer: Answer) -> None:
        """Keep an answer, before anything is made of it."""
        self._writer(answers_path(self.path)).write([_Stored(key=key, answer=answer)])
        self._answers[key] = answer

    def close(self) -> None:
        """Idempotent."""
        for writer in self._writers.values():
            writer.close()

    def _writer(self, path: Path) -> LineWriter:
        """A file is made by its first line."""
        if path not in self._writers:
            self._writers[path] = LineWriter(path)
        return self._writers[path]


@contextlib.contextmanager
def open_bank(path: Path) -> Iterator[BankFiles]:
    """Open a bank for building, a new one or one to go on with. Raises ConfigError if another build has it,
    it can't be written, or a line of it is wrong."""
    lock = path.with_name(f".{path.name}.lock")
    with contextlib.ExitStack() as stack:
        try:
            held = stack.enter_context(lock.open("a"))
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{path}: another build is writing it (it holds {lock})") from None
        except OSError as error:
            raise ConfigError(f"{path}: can't write there: {error.strerror}") from error
        try:
            files = BankFiles(path)
        except OSError as error:
            raise ConfigError(f"{path}: can't write there: {error.strerror}") from error
        stack.callback(files.close)
        yield files


def _whole_lines(path: Path) -> tuple[list[bytes], int]:
    """The whole lines of a file that may not be there, and how many torn ones are left out (0 or 1)."""
    if not path.exists():
        return [], 0
    *lines, rest = path.read_bytes().split(b"\n")
    return lines, int(bool(rest))

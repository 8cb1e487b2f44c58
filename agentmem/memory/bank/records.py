"""A record of the bank, and reading a file of them strictly: a fault is named by its line and its field."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec

from agentmem.failures import ConfigError
from agentmem.trajectory import Split

Named = Annotated[str, msgspec.Meta(min_length=1)]
Counted = Annotated[int, msgspec.Meta(ge=0)]


class Kind(StrEnum):
    """What a hint was written from."""

    SUCCESS = "success"
    """One trace that reached the goal."""
    FAILURE = "failure"
    """One that didn't."""
    PAIR = "pair"
    """One of each: what made the difference."""
    SEVERAL = "several"


class Tokens(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What writing the record took, all passes; None where the writer's server didn't say."""

    prompt: Counted | None
    completion: Counted | None


class BankRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """((q, o), m), and where it comes from. `m` is never empty, `q` neither."""

    id: Named
    """Names what it was written from, by whom and how; unique in a bank."""
    domain: Named
    """The environment."""
    task_id: str | int
    """Its instance."""
    seed: int | None
    """The seed in the instance's name, where that is `task/seed`."""
    split: Split
    """Of the task. Training refuses a bank with a record of another split than `train`."""
    q: Named
    """The task in words."""
    o: str
    """The first observation."""
    m: Named
    """The hint."""
    sources: Annotated[tuple[Named, ...], msgspec.Meta(min_length=1)]
    """The traces it was written from, `<trial>:<episode>` each."""
    successes: Counted
    """How many of them reached the goal."""
    failures: Counted
    writer: Named
    """The model that wrote it."""
    prompt_version: Named
    """Of the prompts that it was asked by."""
    tokens: Tokens
    cut: bool = False
    """The hint had reached its limit, and ends with its last full sentence."""
    image: Named | msgspec.UnsetType = msgspec.UNSET
    """A picture of the first observation: a file, relative to the bank's folder (`bank/pictures.py`)."""

    @property
    def kind(self) -> Kind:
        """See Kind."""
        match self.successes, self.failures:
            case 1, 0:
                return Kind.SUCCESS
            case 0, 1:
                return Kind.FAILURE
            case 1, 1:
                return Kind.PAIR
        return Kind.SEVERAL

    @property
    def content(self) -> tuple[str, str, str, str, str]:
        """Two records with the same one say the same of the same situation."""
        seen = "" if self.image is msgspec.UNSET else self.image
        return (self.domain, self.q, self.o, " ".join(self.m.casefold().split()), seen)

    @property
    def task(self) -> tuple[str, str]:
        """The task, written alike whether its instance is a number or the text of that number."""
        return (self.domain, str(self.task_id))


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong in a file."""

    line: int
    """From 1."""
    field: str
    """Empty: the line as a whole."""
    what: str

    def __str__(self) -> str:
        return f"line {self.line}{f', field {self.field}' if self.field else ''}: {self.what}"


_FIELDS = {field.name: field for field in msgspec.structs.fields(BankRecord)}
_Numbered = list[tuple[int, BankRecord]]


def read_records(path: Path) -> tuple[_Numbered, list[Fault]]:
    """Every line that is a record, with its number, and all faults of the others. Raises ConfigError if the
    file can't be read."""
    try:
        *lines, torn = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    found, faults = parse(lines)
    if torn:
        faults.append(Fault(len(lines) + 1, "", "is torn: it has no end (going on with the build drops it)"))
    return found, faults


def parse(lines: Iterable[bytes]) -> tuple[_Numbered, list[Fault]]:
    """See read_records."""
    found: _Numbered = []
    faults: list[Fault] = []
    first_with: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        record = _record(line)
        if not isinstance(record, BankRecord):
            faults += [Fault(number, field, what) for field, what in record]
        elif (same := first_with.setdefault(record.id, number)) != number:
            faults.append(Fault(number, "id", f"{record.id!r} stands in line {same}, too"))
        else:
            found.append((number, record))
    return found, faults


def read_bank(path: Path) -> list[BankRecord]:
    """The records of a sound, non-empty bank. Raises ConfigError naming line and field of the first fault."""
    found, faults = read_records(path)
    if faults:
        more = f" ({len(faults) - 1} more: agentmem bank check {path})" if len(faults) > 1 else ""
        raise ConfigError(f"{path}, {faults[0]}{more}")
    if not found:
        raise ConfigError(f"{path} holds no record")
    return [record for _, record in found]


def _record(line: bytes) -> BankRecord | list[tuple[str, str]]:
    """A line's record, or its faults: of each field one at most, and what is wrong with it."""
    try:
        fields: Any = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return [("", "is empty" if not line.strip() else f"no JSON: {error}")]
    if not isinstance(fields, dict):
        return [("", f"an object is needed, found {type(fields).__name__}")]
    wrong = [
        (name, f"is unknown; allowed are {', '.join(_FIELDS)}") for name in fields if name not in _FIELDS
    ]
    values = {}
    for name, field in _FIELDS.items():
        if name not in fields:
            wrong += [(name, "is missing")] if field.required else []
            continue
        try:
            values[name] = msgspec.convert(fields[name], field.type)
        except msgspec.ValidationError as error:
            text = str(error)
            wrong.append((name, f"{text[0].lower()}{text[1:]}"))
    if wrong:
        return wrong
    record = BankRecord(**values)
    for name in ("q", "m"):
        if not values[name].strip():
            wrong.append((name, "holds blanks only"))
    if record.successes + record.failures != len(record.sources):
        told = f"{record.successes} successes and {record.failures} failures"
        wrong.append(("sources", f"are {len(record.sources)}, but {told} are told of"))
    return wrong or record


def seed_of(instance: str | int) -> int | None:
    """The seed in an instance's name `task/seed`."""
    last = instance.rpartition("/") if isinstance(instance, str) else ("", "", "")
    return int(last[2]) if last[0] and last[2].isascii() and last[2].isdecimal() else None

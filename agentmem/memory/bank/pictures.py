"""The pictures of a bank: `image` names a file, relative to the bank's folder. A fault is named by its
line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from agentmem.failures import ConfigError
from agentmem.memory.bank.records import BankRecord, Fault, read_records
from agentmem.vision.picture import Picture, PictureError, picture_of


def read_pictures(
    bank: Path, numbered: Sequence[tuple[int, BankRecord]]
) -> tuple[dict[str, Picture], list[Fault]]:
    """Picture by the record's id, of the records (with their lines) that name one; and what is wrong."""
    found: dict[str, Picture] = {}
    faults: list[Fault] = []
    for line, record in numbered:
        if record.image is msgspec.UNSET:
            continue
        if Path(record.image).is_absolute():
            faults.append(Fault(line, "image", f"{record.image}: must be relative to the bank's folder"))
            continue
        try:
            found[record.id] = picture_of(bank.parent / record.image)
        except PictureError as error:
            faults.append(Fault(line, "image", str(error)))
    return found, faults


def moved(record: BankRecord, old: Path, new: Path) -> BankRecord:
    """The record in a bank in another folder: its picture stays where it is."""
    if record.image is msgspec.UNSET:
        return record
    return replace(record, image=os.path.relpath(old.absolute() / record.image, new.absolute()))


def bank_pictures(bank: Path) -> dict[str, Picture]:
    """Of a sound bank. Raises ConfigError naming the line of the first picture that can't be used."""
    found, faults = read_pictures(bank, read_records(bank)[0])
    if faults:
        more = f" ({len(faults) - 1} more: agentmem bank check {bank})" if len(faults) > 1 else ""
        raise ConfigError(f"{bank}, {faults[0]}{more}")
    return found

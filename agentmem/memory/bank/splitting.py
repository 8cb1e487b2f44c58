"""Dividing a bank by task, and finding test tasks in one. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from agentmem.failures import ConfigError
from agentmem.memory.bank.records import BankRecord
from agentmem.trajectory import Split

Task = tuple[str, str]
"""(domain, instance as text)."""


def split(
    records: Sequence[BankRecord], held_out: float, seed: int = 0
) -> tuple[list[BankRecord], list[BankRecord]]:
    """Training part and held-out part, each in the bank's order, with no task in both.

    The held-out part has that share of the tasks (rounded, at least one, not all), chosen by a hash of task
    and seed: where a bank has grown, most of its tasks stay on their side. Raises ConfigError.
    """
    if not 0 < held_out < 1:
        raise ConfigError(f"the held-out share is {held_out:g}: must be between 0 and 1")
    tasks = sorted({record.task for record in records}, key=lambda task: _rank(task, seed))
    if len(tasks) < 2:
        raise ConfigError(f"a bank of {len(tasks)} tasks can't be split by task: at least 2")
    chosen = set(tasks[: min(max(round(held_out * len(tasks)), 1), len(tasks) - 1)])
    parts: tuple[list[BankRecord], list[BankRecord]] = ([], [])
    for record in records:
        parts[record.task in chosen].append(record)
    return parts


def forbidden_records(records: Iterable[BankRecord], tasks: Iterable[Task] = ()) -> list[BankRecord]:
    """The records that training must not see: of another split than `train`, or of one of these tasks."""
    forbidden = frozenset(tasks)
    return [r for r in records if r.split is not Split.TRAIN or r.task in forbidden]


def refuse_test_tasks(records: Sequence[BankRecord], tasks: Iterable[Task], bank: str) -> None:
    """Raises ConfigError if the bank holds a record that training must not see."""
    found = forbidden_records(records, tasks)
    if found:
        names = sorted({f"{r.domain} {r.task_id}" for r in found})
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise ConfigError(
            f"{bank} holds {len(found)} records of test tasks ({', '.join(names[:3])}{more}): training "
            "refuses it; take them out"
        )


def _rank(task: Task, seed: int) -> bytes:
    told = "\0".join((str(seed), *task)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(told, digest_size=16).digest()

"""A bank of hints in words for ALFWorld's scripted agent, written by a rule from what it played.

    agentmem bank play mempi-alfworld --out trials.jsonl
    python -m benchmarks.alfworld_bank trials.jsonl --out bank.jsonl

A language model small enough for two cores can't say what a trace teaches, so in this one setting a rule
reads it: of a course that reached its goal the hint is the kinds of places where things were taken, in order,
and for a lamp the kind of place where it stood. Everything else (records, splits, guard) is the bank's own.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from agentmem.jsonl import LineWriter
from agentmem.memory.bank.records import BankRecord, Tokens
from agentmem.memory.bank.traces import Trace, read_traces

WRITER = "rule of benchmarks/alfworld_bank.py"
MOST = 3
"""Kinds of places in a hint."""


def hint_of(trace: Trace) -> str:
    """The words that would have saved this course its search; empty if there is nothing to say."""
    kinds: list[str] = []
    at = ""
    for step in trace.steps:
        if step.invalid or not step.actions:
            continue
        verb, _, rest = step.actions[0].partition(" ")
        if verb == "go":
            at = _kind(rest.removeprefix("to "))
        elif verb == "take":
            kinds.append(_kind(rest.partition(" from ")[2]))
        elif verb == "use":
            kinds.append(at)
    return " ".join(list(dict.fromkeys(kinds))[:MOST])


def _kind(name: str) -> str:
    return name.partition(" ")[0]


def record_of(trace: Trace) -> BankRecord | None:
    """The record of a course that reached its goal; None of another."""
    hint = hint_of(trace) if trace.success else ""
    if not hint:
        return None
    return BankRecord(
        id=f"{trace.domain}:{trace.task_id}:{trace.digest}",
        domain=trace.domain,
        task_id=trace.task_id,
        seed=None,
        split=trace.split,
        q=trace.task_text,
        o=trace.first,
        m=hint,
        sources=(trace.source,),
        successes=1,
        failures=0,
        writer=WRITER,
        prompt_version="rule-1",
        tokens=Tokens(prompt=None, completion=None),
    )


def main() -> None:
    """Write the bank; one record a task and course."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trials", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    written: set[str] = set()
    with LineWriter(given.out) as lines:
        for traces in read_traces(given.trials):
            records = [record for trace in traces if (record := record_of(trace)) is not None]
            new = [record for record in records if record.id not in written]
            written.update(record.id for record in new)
            lines.write(new)
    print(f"{len(written)} records in {given.out}")


if __name__ == "__main__":
    main()

"""What is in a bank, in numbers. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from agentmem.memory.bank.records import BankRecord


def statistics(records: Sequence[BankRecord]) -> dict[str, Any]:
    """Counts by domain, split, kind, writer and prompt version; lengths; what writing took."""
    return {
        "records": len(records),
        "tasks": len({record.task for record in records}),
        "domains": _counts(record.domain for record in records),
        "splits": _counts(record.split.value for record in records),
        "kinds": _counts(record.kind.value for record in records),
        "writers": _counts(record.writer for record in records),
        "prompt_versions": _counts(record.prompt_version for record in records),
        "cut": sum(record.cut for record in records),
        "duplicates": len(records) - len({record.content for record in records}),
        "words": {
            "q": _spread([len(record.q.split()) for record in records]),
            "o": _spread([len(record.o.split()) for record in records]),
            "m": _spread([len(record.m.split()) for record in records]),
        },
        "prompt_tokens": sum(record.tokens.prompt or 0 for record in records),
        "completion_tokens": sum(record.tokens.completion or 0 for record in records),
    }


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))


def _spread(values: Sequence[int]) -> dict[str, float]:
    """Mean, median, 95th percentile (nearest rank) and maximum."""
    ordered = sorted(values)

    def rank(share: float) -> int:
        return ordered[math.ceil(share * len(ordered)) - 1]

    mean = round(sum(ordered) / len(ordered), 1)
    return {"mean": mean, "median": rank(0.5), "p95": rank(0.95), "max": ordered[-1]}

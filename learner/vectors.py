"""Check a file of test vectors against this package: `agentmem vectors FILE`.

The file is one JSON object: section name -> list of cases. A case holds a function's inputs and its expected
outputs, `null` standing for a failed trial. Every section and every field of every case is used: a section
without a runner, an unknown field, or a missing one is a problem, never a pass.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learner import vector_sections

TOLERANCE = 1e-6
"""The largest absolute difference that still counts as equal."""


class VectorsError(ValueError):
    """The file is not a file of test vectors."""


@dataclass(frozen=True, slots=True)
class SectionResult:
    """How one section came out: number of cases, largest absolute difference, what kept it from running.

    `max_error` is infinite when there is a `problem`.
    """

    name: str
    cases: int
    max_error: float
    problem: str = ""

    @property
    def passed(self) -> bool:
        """True when every case ran and none is further off than TOLERANCE."""
        return not self.problem and self.max_error <= TOLERANCE


class _Case(Mapping[str, Any]):
    """A case that remembers which of its fields were read."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return self._fields[key]

    def __iter__(self) -> Any:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


def check(path: str | Path) -> list[SectionResult]:
    """Run every section of the file, in its order.

    Raises VectorsError when the file can't be read, isn't JSON, or has no section.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise VectorsError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise VectorsError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict) or not content:
        raise VectorsError(f"{path} is not an object of sections")
    return [_check_section(name, cases) for name, cases in content.items()]


def _check_section(name: str, cases: Any) -> SectionResult:
    count = len(cases) if isinstance(cases, list) else 0
    run = vector_sections.SECTIONS.get(name)
    if run is None:
        known = ", ".join(vector_sections.SECTIONS)
        return SectionResult(name, count, math.inf, f"no function for this section; known are {known}")
    if count == 0:
        return SectionResult(name, count, math.inf, "not a list of cases")
    worst = 0.0
    for index, case in enumerate(cases):
        try:
            worst = max(worst, _check_case(run, case))
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            what = f"missing field {error}" if isinstance(error, KeyError) else str(error)
            return SectionResult(name, count, math.inf, f"case {index}: {what}")
    return SectionResult(name, count, worst)


def _check_case(run: Callable[[Mapping[str, Any]], vector_sections.Outcome], fields: Any) -> float:
    if not isinstance(fields, dict):
        raise ValueError("not an object")
    case = _Case(fields)
    outcome = run(case)
    worst = max(difference(got, case[name], name) for name, got in outcome.items())
    if unread := [name for name in fields if name not in case.read]:
        raise ValueError(f"unknown fields {', '.join(unread)}")
    return worst


def difference(got: Any, expected: Any, where: str) -> float:
    """The largest absolute difference of two nested values of numbers, None and names.

    Raises ValueError naming the place where their shapes differ, or where a number isn't finite.
    """
    if isinstance(got, Mapping) and isinstance(expected, Mapping):
        if set(got) != set(expected):
            raise ValueError(f"{where} has the fields {sorted(expected)}, computed {sorted(got)}")
        return max((difference(got[key], expected[key], f"{where}.{key}") for key in got), default=0.0)
    if _is_list(got) and _is_list(expected):
        if len(got) != len(expected):
            raise ValueError(f"{where} has {len(expected)} entries, computed {len(got)}")
        pairs = enumerate(zip(got, expected, strict=True))
        return max((difference(a, b, f"{where}[{i}]") for i, (a, b) in pairs), default=0.0)
    if got is None and expected is None:
        return 0.0
    if not isinstance(got, int | float) or not isinstance(expected, int | float):
        raise ValueError(f"{where} is {_kind(expected)}, computed {_kind(got)}")
    if not math.isfinite(got) or not math.isfinite(expected):
        raise ValueError(f"{where} is {expected}, computed {got}")
    return abs(got - expected)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if _is_list(value) else f"{value!r}"

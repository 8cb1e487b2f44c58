"""How arms look: a source has its hue, a condition its tint and dash, so that pairs are seen as such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentmem.app.evaluation.comparison import Comparison, Name

_HUES = 6
"""Colours `--c0` … of the page's style; they are told apart by the colour-blind, too."""
_TINTS = (1.0, 0.42, 0.65, 0.25)
_DASHES = (None, "5 4", "1.5 3.5", "8 3 2 3")


@dataclass(frozen=True, slots=True)
class Look:
    """Of one arm."""

    colour: str
    tint: float
    dash: str | None


def looks(comparison: Comparison) -> dict[Name, Look]:
    """Arm -> look."""
    names = [arm.name for arm in comparison.arms]
    sources = list(dict.fromkeys(name.source for name in names))
    conditions = _in_order(names)
    return {
        name: Look(
            f"var(--c{sources.index(name.source) % _HUES})",
            _tint(conditions.index(name.condition), len(conditions)),
            _DASHES[conditions.index(name.condition) % len(_DASHES)],
        )
        for name in names
    }


def _tint(place: int, number: int) -> float:
    """Many conditions (attempts) grow darker to the last one."""
    if number <= len(_TINTS):
        return _TINTS[place]
    return 0.25 + 0.75 * place / (number - 1)


def _in_order(names: Sequence[Name]) -> list[str]:
    """Full colour is for memory where there is any."""
    found = dict.fromkeys(name.condition for name in names)
    return sorted(found, key=lambda condition: condition != "with_memory")

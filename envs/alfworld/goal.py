"""What an ALFWorld task asks for, read from its sentence: the games know twelve sentences for six types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Change = Literal["clean", "heat", "cool"]

_THING = r"(?P<thing>\w+)"
_PLACE = r"(?P<place>\w+)"
_SENTENCES: tuple[tuple[str, Change | None, int], ...] = (
    (rf"look at {_THING} under the {_PLACE}", None, 1),
    (rf"examine the {_THING} with the {_PLACE}", None, 1),
    (rf"find two {_THING} and put them (?:in/on|in|on) {_PLACE}", None, 2),
    (rf"put two {_THING} (?:in/on|in|on) {_PLACE}", None, 2),
    (rf"clean some {_THING} and put it (?:in/on|in|on) {_PLACE}", "clean", 1),
    (rf"heat some {_THING} and put it (?:in/on|in|on) {_PLACE}", "heat", 1),
    (rf"cool some {_THING} and put it (?:in/on|in|on) {_PLACE}", "cool", 1),
    (rf"put a clean {_THING} (?:in/on|in|on) {_PLACE}", "clean", 1),
    (rf"put a hot {_THING} (?:in/on|in|on) {_PLACE}", "heat", 1),
    (rf"put a cool {_THING} (?:in/on|in|on) {_PLACE}", "cool", 1),
    (rf"put (?:some|an?) {_THING} (?:in/on|in|on) {_PLACE}", None, 1),
)
_PATTERNS = tuple((re.compile(pattern), change, count) for pattern, change, count in _SENTENCES)


@dataclass(frozen=True, slots=True)
class Goal:
    """`place`: where the thing belongs, or the lamp under which it is looked at."""

    thing: str
    place: str
    change: Change | None = None
    count: int = 1
    look: bool = False


def goal_of(task: str) -> Goal:
    """The goal of a task's sentence (`Your task is to: …`). Raises ValueError for a sentence unknown here."""
    for pattern, change, count in _PATTERNS:
        found = pattern.search(task)
        if found:
            look = task[found.start() :].startswith(("look", "examine"))
            return Goal(found["thing"], found["place"], change, count, look)
    raise ValueError(f"not a task of ALFWorld's: {task!r}")

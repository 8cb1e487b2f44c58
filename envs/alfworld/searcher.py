"""A scripted agent for ALFWorld: it knows what to do with a thing once found, and searches in a poor order.

It looks into one place after another, in the order in which the room lists them, so cabinets and drawers by
the dozen come before countertops and tables. A hint changes the order: kinds of places that it names
(`fridge countertop`, or a sentence with these words) are looked into first, in the hint's order. Nothing else
of a hint is understood. So a hint that is right saves turns, and one that is wrong costs some; the agent
itself never changes. Equal views get equal answers: it is a function of the view, without memory or chance.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from envs.alfworld.goal import Goal, goal_of
from envs.base import Step, View

_LISTED = re.compile(r"an? ([a-z]+ \d+)")
_SEEN = re.compile(r"(?:On the|In it,|In the) ?(?:[a-z]+ \d+)?,? ?you see (?P<things>[^.]*)")
_STATIONS = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
_LAMP = "desklamp"


@dataclass(slots=True)
class _Known:
    """What the turns so far have shown."""

    places: list[str]
    at: str = ""
    open: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    seen: dict[str, list[str]] = field(default_factory=dict)
    """Things by place, of places that were looked into."""
    held: str = ""
    changed: set[str] = field(default_factory=set)
    """Things that were cleaned, heated or cooled."""
    placed: set[str] = field(default_factory=set)
    unreachable: set[str] = field(default_factory=set)
    """Places that the room lists but lets nobody go to."""

    def of_kind(self, kind: str) -> str:
        """The place of a kind with the lowest number (rooms list them from the highest)."""
        fitting = (p for p in reversed(self.places) if _kind(p) == kind and p not in self.unreachable)
        return next(fitting, f"{kind} 1")


@dataclass(frozen=True, slots=True)
class Searcher:
    """See the module's docstring."""

    backwards: bool = False
    """Search from the end of the room's list, where a hint doesn't say otherwise."""

    def respond(self, view: View) -> str:
        """One command in action tags. Raises ValueError for a task unknown to ALFWorld."""
        goal = goal_of(view.instruction)
        known = _known(view, goal)
        put = "put {} in/on {}" if "in/on PLACE" in view.instruction else "move {} to {}"
        order = _order(known.places, view.hint or "", backwards=self.backwards)
        return f"<action>{_next(goal, known, order, put)}</action>"


def kinds_named(hint: str, places: Sequence[str]) -> list[str]:
    """Kinds of places that a hint names, each once, in its order, of those that the room has."""
    kinds = {_kind(place) for place in places}
    words = re.findall(r"[a-z]+", hint.lower())
    singular = (word if word in kinds else word.removesuffix("s") for word in words)
    return list(dict.fromkeys(word for word in singular if word in kinds))


def _order(places: Sequence[str], hint: str, *, backwards: bool) -> list[str]:
    named = kinds_named(hint, places)
    first = [place for kind in named for place in reversed(places) if _kind(place) == kind]
    others = reversed(places) if backwards else places
    return [*first, *(place for place in others if place not in first)]


def _known(view: View, goal: Goal) -> _Known:
    steps = view.history
    first = steps[0].observation if steps else view.observation
    known = _Known(places=_LISTED.findall(first))
    after = [*(step.observation for step in steps[1:]), view.observation][: len(steps)]
    for step, told in zip(steps, after, strict=True):
        _learn(known, step, told, goal)
    return known


def _learn(known: _Known, step: Step, told: str, goal: Goal) -> None:
    if not step.actions:
        return
    verb, _, rest = step.actions[0].partition(" ")
    if step.invalid:
        if verb == "go":
            known.unreachable.add(rest.removeprefix("to "))
        return
    match verb:
        case "go":
            known.at = rest.removeprefix("to ")
            if "is closed" in told:
                known.closed.add(known.at)
        case "open":
            known.closed.discard(rest)
            known.open.add(rest)
        case "take":
            thing, _, place = rest.partition(" from ")
            known.held = thing
            known.seen[place] = [other for other in known.seen.get(place, []) if other != thing]
        case "clean" | "heat" | "cool":
            known.changed.add(rest.partition(" with ")[0])
        case "move" | "put":
            thing = re.split(r" to | in/on ", rest)[0]
            known.placed.add(thing)
            known.held = ""
    if known.at and known.at not in known.closed and verb in ("go", "open"):
        found = _SEEN.search(told)
        known.seen[known.at] = _LISTED.findall(found["things"]) if found else []


def _next(goal: Goal, known: _Known, order: Sequence[str], put: str) -> str:
    if not known.held:
        return _towards_thing(goal, known, order)
    if goal.change and known.held not in known.changed:
        station = known.of_kind(_STATIONS[goal.change])
        return _at(known, station) or f"{goal.change} {known.held} with {station}"
    if goal.look:
        return _towards_lamp(known, order)
    target = known.of_kind(goal.place)
    return _at(known, target) or _opened(known, target) or put.format(known.held, target)


def _towards_thing(goal: Goal, known: _Known, order: Sequence[str]) -> str:
    done = known.placed
    for place, things in known.seen.items():
        wanted = [t for t in things if _kind(t) == goal.thing and t not in done]
        if wanted and not (place.startswith(f"{goal.place} ") and not goal.change and not goal.look):
            return _at(known, place) or f"take {wanted[0]} from {place}"
    return _search(known, order)


def _towards_lamp(known: _Known, order: Sequence[str]) -> str:
    for place, things in known.seen.items():
        lamp = next((t for t in things if _kind(t) == _LAMP), None)
        if lamp:
            return _at(known, place) or f"use {lamp}"
    return _search(known, order)


def _search(known: _Known, order: Sequence[str]) -> str:
    """Look into the next place that wasn't."""
    for place in order:
        if place not in known.seen and place not in known.unreachable:
            return _at(known, place) or _opened(known, place) or "look"
    return "look"


def _at(known: _Known, place: str) -> str:
    """The command that leads to a place; empty if it is reached."""
    return "" if known.at == place else f"go to {place}"


def _opened(known: _Known, place: str) -> str:
    return f"open {place}" if place in known.closed else ""


def _kind(name: str) -> str:
    return name.partition(" ")[0]

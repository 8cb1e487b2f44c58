"""A game file made ready to be played: parsed and grounded once, then shared by all that play it.

TextWorld's own `PddlEnv` grounds a game four times for one `load` and `reset` (each time once for play and
once for its planner) and parses its grammar each time. Here it is grounded once, and the grammar, which games
share but for the sentence of their task, is parsed once. What is played is the same: tests compare the two.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Placing = Literal["move", "put"]
"""How a game's grammar says that something is put down: `move X to Y` or `put X in/on Y`."""

KEPT = 4
"""Grounded games that a process keeps. The members of a group play the same one."""

_KEPT_FACTS = 20_000  # a game has about 3,000

_TASK = re.compile(r"Your task is to: ([^\"\n]*)")
_ANY_TASK = "Your task is to: SOMETHING"
_ALONE = threading.Lock()  # the translator works on global state


@dataclass(frozen=True, slots=True)
class Grounding:
    """All about a game that doesn't change while it is played."""

    logic: Any
    """`textworld.envs.pddl.logic.GameLogic`: types, actions and the grammar of the feedback."""
    actions: dict[str, Any]
    """The domain's actions by name, with their parameters."""
    types: dict[str, str]
    """The type of each object."""
    sas: bytes
    """The initial state and all operators, as the state library reads them."""
    facts: tuple[Any, ...]
    """The facts of the initial state that the problem names; the state library knows further ones."""
    task: str
    """The sentence of the task, from `Your task is to:` to its full stop."""
    placing: Placing
    commands: dict[str, str] = field(default_factory=dict)
    """The commands of the operators seen so far. Names and places of receptacles don't change in a game."""


def grounding(game_file: Path) -> Grounding:
    """The game of this file."""
    with _ALONE:
        return _grounding(game_file)


@functools.lru_cache(maxsize=KEPT)
def _grounding(game_file: Path) -> Grounding:
    _forget_old_facts()
    data = json.loads(game_file.read_text())
    found = _TASK.search(data["grammar"])
    logic = _logic(data["pddl_domain"], _TASK.sub(_ANY_TASK, data["grammar"]))
    problem, sas = _translated(data["pddl_domain"], data["pddl_problem"])
    _add_types(logic, problem)
    types = {thing.name: thing.type_name for thing in problem.objects}
    return Grounding(
        logic=logic,
        actions={action.name: action for action in problem.actions},
        types=types,
        sas=sas.encode(),
        facts=tuple(fact for fact in (_fact(atom, types) for atom in problem.init) if fact is not None),
        task=found[0] if found else "",
        placing=_placing(logic),
    )


def _placing(logic: Any) -> Placing:
    """Read from the template of the action by which something is put down."""
    return "put" if logic.actions["putobject"].template.startswith("put ") else "move"


@functools.lru_cache(maxsize=2)  # one each for the two grammars
def _logic(domain: str, grammar: str) -> Any:
    from textworld.envs.pddl.logic import GameLogic

    return GameLogic(domain=domain, grammar=grammar)


def _forget_old_facts() -> None:
    """TextWorld keeps every fact that it ever made, a megabyte a game. Equal ones serve as well."""
    from mementos import core

    if len(core._memento_cache) > _KEPT_FACTS:
        core._memento_cache.clear()


def _translated(domain: str, problem: str) -> tuple[Any, str]:
    import fast_downward

    arguments = sys.argv  # the translator replaces them
    try:
        translated: tuple[Any, str] = fast_downward.pddl2sas(domain, problem)
    finally:
        sys.argv = arguments
    return translated


def _add_types(logic: Any, problem: Any) -> None:
    from textworld.logic import Type

    known = {kind.name for kind in logic.types}
    for kind in problem.types:
        if kind.name not in known:
            logic.types.add(Type(kind.name, kind.supertype_names))
            known.add(kind.name)  # the problem names `object` twice


def _fact(atom: Any, types: dict[str, str]) -> Any | None:
    """An entry of the problem's initial state as a fact, or None for equalities, costs and distances."""
    from textworld.logic import Proposition, Variable

    if hasattr(atom, "predicate"):
        name, arguments = atom.predicate, atom.args
    else:
        name, arguments = str(atom.expression.value), atom.fluent.args
    if (
        name == "="
        or name.isdigit()
        or (not hasattr(atom, "predicate") and atom.fluent.symbol == "total-cost")
    ):
        return None
    return Proposition(name, [Variable(argument, types[argument]) for argument in arguments])

"""The state of a running game, made from its grounding without translating it again.

Imports TextWorld, so it is imported where a game is started.
"""

from __future__ import annotations

from typing import Any

from alfworld.agents.utils.misc import Demangler
from textworld.envs.pddl.logic import Atom, PddlState
from textworld.generator.game import EntityInfo
from textworld.logic import GameLogic as AnyLogic

from envs.alfworld.grounding import Grounding


class State(PddlState):  # type: ignore[misc]
    """TextWorld's state of a planning problem, at its beginning.

    The initialiser of `PddlState` isn't called, for it would translate the problem twice. This one leaves the
    same attributes and the same facts in the same order; all else of `PddlState` is used as it is.
    """

    def __init__(self, library: Any, ground: Grounding) -> None:
        super(PddlState, self).__init__(AnyLogic())  # it insists on a logic of TextWorld's own language
        self._logic = ground.logic
        self.downward_lib = library
        self._actions = ground.actions
        self.name2type = ground.types
        library.load_sas(ground.sas)
        self.add_facts(ground.facts)
        atoms = (Atom * library.get_state_size())()
        library.get_state(atoms)
        facts = [atom.get_fact(ground.types) for atom in atoms]
        self.add_facts(fact for fact in facts if not fact.is_negation)


def names(state: State) -> dict[str, Any]:
    """What the texts call each thing: `Desk_bar_...` is `desk 1`."""
    entities = {v.name: EntityInfo(v.name, v.type) for fact in state.facts for v in fact.arguments}
    known = Demangler(game_infos=entities, shuffle=False)
    for entity in entities.values():
        entity.name = known.demangle_alfred_name(entity.id)
        entity.definite, entity.indefinite = "the", "a"
    return entities

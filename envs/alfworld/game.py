"""One game at a time, played in the process itself: no gym, no child process.

Going back to the start means to read the grounded game into the state library again (a few milliseconds).

The state library holds one state, so each game that is played at a time has a copy of it. Unloading a copy
can crash the process, so a closed game leaves its copy, emptied, to the next one: there are never more copies
than there were games at a time.
"""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

from envs.alfworld.grounding import Grounding, grounding

_idle: list[Any] = []
"""Copies of the state library that no game uses."""


class Game:
    """A loaded game. `load`, then `start`, then `play`; `close` gives the state library back."""

    def __init__(self) -> None:
        self._library = _borrowed()
        self._give_back = weakref.finalize(self, _returned, self._library)
        self._give_back.atexit = False
        self._ground: Grounding | None = None
        self._entities: dict[str, Any] = {}
        self._state: Any = None
        self._actions: dict[str, Any] = {}
        self.commands: tuple[str, ...] = ()
        """The commands that are possible now, sorted."""
        self.won = False

    def load(self, game_file: Path) -> None:
        """Make this game the one to start."""
        if not self._give_back.alive:
            raise RuntimeError("the game was closed")
        self._ground = grounding(game_file)
        self._state = None
        self._entities = {}

    @property
    def ground(self) -> Grounding:
        """What doesn't change in the loaded game."""
        if self._ground is None:
            raise RuntimeError("no game is loaded")
        return self._ground

    def start(self) -> str:
        """Begin at the initial state. Returns the introduction, which ends in the task."""
        from envs.alfworld.state import State, names

        self._state = State(self._library, self.ground)
        self._entities = self._entities or names(self._state)
        introduction = self._told("#intro#", {})
        self._look()
        return introduction.replace("Your task is to: SOMETHING", self.ground.task)

    def play(self, command: str) -> str | None:
        """What comes of a command; None, and no change, if it isn't possible now."""
        action = self._actions.get(command)
        if action is None:
            return None
        self._state.apply(action)
        told = self._told(action.feedback_rule, action.mapping)
        self._look()
        return told

    def facts(self) -> list[Any]:
        """All that is true now, with the names that the texts use (for the expert)."""
        from textworld.logic import Proposition, Variable

        return [
            Proposition(fact.name, [Variable(self._entities[v.name].name, v.type) for v in fact.arguments])
            for fact in self._state.facts
        ]

    def close(self) -> None:
        """Give the state library back. Idempotent; nothing can be played afterwards."""
        self._ground, self._state, self._actions, self.commands = None, None, {}, ()
        self._give_back()

    def _look(self) -> None:
        """Find out what can be done now, and whether the goal is reached."""
        shown = {key: info.name for key, info in self._entities.items()}
        self._actions = {}
        for action in self._state.all_applicable_actions():
            key = f"{action.name} {' '.join(v.name for v in action.mapping.values())}"
            command = self.ground.commands.get(key)
            if command is None:
                action.command_template = self._told(action.command_template, action.mapping)
                command = self.ground.commands[key] = action.format_command(shown)
            self._actions.setdefault(command, action)  # two actions of the same command: the first is played
        self.commands = tuple(sorted(self._actions))
        self.won = bool(self._state.check_goal())

    def _told(self, symbol: str, mapping: dict[Any, Any]) -> str:
        context = {
            "state": self._state,
            "facts": list(self._state.facts),
            "variables": {place.name: self._entities[v.name] for place, v in mapping.items()},
            "mapping": mapping,
            "entity_infos": self._entities,
        }
        told: str = self.ground.logic.grammar.derive(symbol, context)
        return told


def _borrowed() -> Any:
    if _idle:
        return _idle.pop()
    import fast_downward

    return fast_downward.load_lib()


def _returned(library: Any) -> None:
    library.cleanup()
    _idle.append(library)

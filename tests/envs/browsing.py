"""Acting on a page by what can be read on it, for tests of environments in a browser."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from envs.base import Instance, TextEnv

Move = tuple[str, ...]
"""An action's name, what stands on the line of its element (none: no element), and further arguments."""
WITHOUT_ELEMENT = ("send_msg_to_user", "report_infeasible", "goto", "go_back")


def written(observation: str, move: Move) -> str:
    """The action that a move is on this page."""
    name, *arguments = move
    if name not in WITHOUT_ELEMENT:
        role = "button|link" if name == "click" else "textbox|searchbox|combobox"
        line = rf"\[(\w+)\] (?:{role})\b[^\n]*'[^'\n]*{re.escape(arguments[0])}"
        found = re.search(line, observation)
        assert found, f"nothing like {arguments[0]!r} in:\n{observation}"
        arguments[0] = found.group(1)
    return f"{name}({', '.join(map(repr, arguments))})"


Outcome = tuple[str, float, bool, dict[str, Any]]
"""Observation, reward, over, info."""


def browsed(env: TextEnv, instance: Instance, moves: Sequence[Move]) -> tuple[list[str], Outcome]:
    """The actions that were done in a new episode, and what the last led to. No earlier one may be over."""
    observation, _ = env.reset(options={"instance": instance})
    done: list[str] = []
    last: Outcome = (observation, 0.0, False, {})
    for move in moves:
        assert not last[2], f"over before {move}"
        done.append(written(last[0], move))
        observation, reward, over, _, info = env.step(done[-1])
        assert not info["invalid"], done[-1]
        last = (observation, reward, over, info)
    return done, last

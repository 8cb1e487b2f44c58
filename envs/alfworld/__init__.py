"""ALFWorld: household tasks told in text, played by TextWorld on the official games."""

from __future__ import annotations

from collections.abc import Sequence

from envs.alfworld.env import AlfWorld
from envs.alfworld.games import ids, source, task_type
from envs.alfworld.options import Options
from envs.alfworld.searcher import Searcher
from envs.alfworld.text import TextStyle
from envs.alfworld.words import hints, vocabulary
from envs.base import Instance, PromptStyle
from envs.options import EnvSetupError
from envs.scripted import ScriptedAgent, chosen
from envs.warmstart import WarmStart

__all__ = ["Options", "check", "instances", "make", "scripted_agent", "style", "warm_start"]


def instances(options: Options, split: str) -> Sequence[Instance]:
    """The games of a split and of the types that the options name, sorted by their paths."""
    part = "train" if split == "train" else options.eval_split
    types = options.types(split)
    return [game for game in ids(options.games, part) if task_type(game) in types]


def style(options: Options) -> PromptStyle:
    """The chat style of the games."""
    return TextStyle(options)


def make(options: Options) -> AlfWorld:
    """An environment that plays one game at a time."""
    return AlfWorld(options, style(options))


def scripted_agent(options: Options, script: str = "") -> ScriptedAgent:
    """A player that searches in a poor order, and heeds hints on where to look. `reversed`: one that searches
    the places in the opposite order."""
    agents: dict[str, ScriptedAgent] = {"searcher": Searcher(), "reversed": Searcher(backwards=True)}
    return chosen(agents, script, "alfworld")


def warm_start(options: Options) -> WarmStart | None:
    """Words and random hints for a tiny memory policy, if it is asked in words."""
    return WarmStart(vocabulary(), hints=hints) if options.advice == "words" else None


def check() -> list[str]:
    """What is missing besides packages: the games."""
    try:
        source("full")
    except EnvSetupError as error:
        return [str(error)]
    return []

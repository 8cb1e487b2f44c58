"""Doors, where the reward stands behind several right doors: for small word-level models and in chat."""

from __future__ import annotations

from functools import partial

from envs.base import PromptStyle
from envs.doors.compact import CompactStyle, vocabulary
from envs.doors.demonstrator import demonstrations, hints, sights
from envs.doors.env import Doors
from envs.doors.house import instances
from envs.doors.options import Options
from envs.doors.scripted import Guest
from envs.doors.text import TextStyle
from envs.scripted import ScriptedAgent, chosen
from envs.warmstart import WarmStart

__all__ = ["Options", "instances", "make", "scripted_agent", "style", "warm_start"]


def style(options: Options) -> PromptStyle:
    """The prompt style of the format that the options name."""
    return CompactStyle(options) if options.format == "compact" else TextStyle(options)


def make(options: Options) -> Doors:
    """An environment; its observations are the same in both formats."""
    return Doors(options, style(options))


def warm_start(options: Options) -> WarmStart | None:
    """Words and demonstrator of the compact format; words and random hints where only advice is in words."""
    play = partial(demonstrations, options) if options.format == "compact" else None
    if play is None and options.advice != "words":
        return None
    seen = partial(sights, options) if options.screenshot else None
    return WarmStart(vocabulary(options), play, partial(hints, options), seen)


def scripted_agent(options: Options, script: str = "") -> ScriptedAgent:
    """A player that knows its way behind the first door, and heeds hints. `reversed`: one that without a hint
    begins at the other end of the list of doors."""
    agents: dict[str, ScriptedAgent] = {"guest": Guest(options), "reversed": Guest(options, usual=-1)}
    return chosen(agents, script, "doors")

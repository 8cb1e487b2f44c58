"""Scout, where looking costs this episode and pays in the next: for small word-level models and in chat."""

from __future__ import annotations

from functools import partial

from envs.base import PromptStyle
from envs.scout import compact, text
from envs.scout.demonstrator import demonstrations, hints
from envs.scout.env import Scout
from envs.scout.field import instances
from envs.scout.options import Options
from envs.scout.scripted import Digger
from envs.scripted import ScriptedAgent, chosen
from envs.warmstart import WarmStart

__all__ = ["Options", "instances", "make", "scripted_agent", "style", "warm_start"]


def style(options: Options) -> PromptStyle:
    """The prompt style of the format that the options name."""
    return compact.CompactStyle(options.size) if options.format == "compact" else text.TextStyle(options)


def make(options: Options) -> Scout:
    """An environment that writes its field in the format that the options name."""
    render = compact.Render(options.size) if options.format == "compact" else text.Render(options.size)
    return Scout(options, style(options), render)


def warm_start(options: Options) -> WarmStart | None:
    """Words and demonstrator of the compact format."""
    if options.format != "compact":
        return None
    return WarmStart(compact.vocabulary(options), partial(demonstrations, options), partial(hints, options))


def scripted_agent(options: Options, script: str = "") -> ScriptedAgent:
    """A player that digs beside one landmark after the other, and heeds hints. `reversed`: one that begins
    with the last of these places."""
    agents: dict[str, ScriptedAgent] = {
        "digger": Digger(options),
        "reversed": Digger(options, backwards=True),
    }
    return chosen(agents, script, "scout")

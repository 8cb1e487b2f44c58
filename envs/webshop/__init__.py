"""WebShop: buying what somebody asks for, in a shop with the benchmark's real products (own simulator)."""

from __future__ import annotations

from collections.abc import Sequence

from envs.base import Instance, PromptStyle
from envs.options import EnvSetupError
from envs.webshop.env import WebShop
from envs.webshop.options import Options
from envs.webshop.shop import missing, open_shop
from envs.webshop.text import TextStyle

__all__ = ["Options", "check", "instances", "make", "style"]


def instances(options: Options, split: str) -> Sequence[Instance]:
    """The goals' indices of a split: `eval` are those below `eval_goals`, `train` the rest."""
    count = open_shop(options).goal_count
    held = min(options.eval_goals, count)
    found = range(held, count) if split == "train" else range(held)
    if not found:
        raise EnvSetupError(
            f"option eval_goals={options.eval_goals}: of {count} goals none is left to train on"
        )
    return found


def style(options: Options) -> PromptStyle:
    """The chat style of the shop."""
    return TextStyle(options)


def make(options: Options) -> WebShop:
    """An environment that plays one purchase at a time."""
    return WebShop(options, style(options))


def check() -> list[str]:
    """The data files that are missing."""
    return missing(Options())

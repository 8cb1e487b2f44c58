"""Sokoban, in rooms made from seeds and proved solvable, or in Boxoban's published levels."""

from __future__ import annotations

from collections.abc import Sequence

from envs.base import Instance, PromptStyle
from envs.sokoban import boxoban
from envs.sokoban.env import Sokoban
from envs.sokoban.generator import SEEDS
from envs.sokoban.options import Options
from envs.sokoban.text import TextStyle

__all__ = ["Options", "instances", "make", "style"]


def instances(options: Options, split: str) -> Sequence[Instance]:
    """The seeds of a split, or the addresses of Boxoban's levels."""
    if options.source == "boxoban":
        return boxoban.levels(options.train_levels if split == "train" else options.eval_levels)
    return range(SEEDS) if split == "train" else range(SEEDS, 2 * SEEDS)


def style(options: Options) -> PromptStyle:
    """The chat style of the game."""
    return TextStyle(options)


def make(options: Options) -> Sokoban:
    """An environment that plays one room at a time."""
    return Sokoban(options, style(options))

"""Sokoban, in rooms made from seeds and proved solvable, or in Boxoban's published levels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from envs.base import Instance, PromptStyle
from envs.sokoban import boxoban
from envs.sokoban.compact import CompactStyle, vocabulary
from envs.sokoban.demonstrator import demonstrations
from envs.sokoban.env import Sokoban
from envs.sokoban.generator import SEEDS
from envs.sokoban.options import Options
from envs.sokoban.text import TextStyle
from envs.warmstart import WarmStart

__all__ = ["Options", "instances", "make", "style", "warm_start"]


def instances(options: Options, split: str) -> Sequence[Instance]:
    """The seeds of a split, or the addresses of Boxoban's levels."""
    if options.source == "boxoban":
        return boxoban.levels(options.train_levels if split == "train" else options.eval_levels)
    return range(SEEDS) if split == "train" else range(SEEDS, 2 * SEEDS)


def style(options: Options) -> PromptStyle:
    """The prompt style of the format that the options name."""
    return CompactStyle(options.max_moves_per_turn) if options.format == "compact" else TextStyle(options)


def make(options: Options) -> Sokoban:
    """An environment that plays one room at a time."""
    return Sokoban(options, style(options))


def warm_start(options: Options) -> WarmStart | None:
    """Words and demonstrator of the compact format."""
    if options.format != "compact":
        return None
    return WarmStart(vocabulary(options), partial(demonstrations, options))

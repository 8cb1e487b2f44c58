"""MineSweeper, in a compact format for small word-level models and in a chat format for language models."""

from __future__ import annotations

from functools import partial

from envs.base import PromptStyle
from envs.minesweeper.compact import CompactStyle, renderer
from envs.minesweeper.demonstrator import demonstrations
from envs.minesweeper.env import MineSweeper
from envs.minesweeper.instances import instances
from envs.minesweeper.options import Options
from envs.minesweeper.text import TextStyle, render
from envs.minesweeper.vocabulary import words
from envs.warmstart import WarmStart

__all__ = ["Options", "instances", "make", "style", "warm_start"]


def style(options: Options) -> PromptStyle:
    """The prompt style of the format that the options name."""
    return CompactStyle(options.size) if options.format == "compact" else TextStyle(options)


def make(options: Options) -> MineSweeper:
    """An environment that writes its boards in the format that the options name."""
    writer = renderer(options.size) if options.format == "compact" else render
    return MineSweeper(options, style(options), writer)


def warm_start(options: Options) -> WarmStart | None:
    """Words and demonstrator of the compact format."""
    if options.format != "compact":
        return None
    return WarmStart(words(options.size, options.mines), partial(demonstrations, options))

"""What a game with a compact format brings for a tiny word-level model: its words, and play to imitate.

A game's module may have `warm_start(options) -> WarmStart | None` (None: these options use no such format).
The play is poor but legal, and uses what its prompts show now and then: enough for reinforcement learning to
find something to strengthen, not enough to be the solution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Row = tuple[str, str]
"""Prompt text and response text. A response of fixed length isn't followed by <eos>."""
Memory = Literal["history", "reflection", "both"]


@dataclass(frozen=True, slots=True)
class Play:
    """The trials to demonstrate."""

    memory: Memory = "history"
    attempts: int = 3
    """Most episodes of a trial."""
    max_turns: int | None = None
    """Most turns of an episode; None: as the game's options say."""


@dataclass(frozen=True, slots=True)
class WarmStart:
    """A game's words and its demonstrator."""

    vocabulary: Sequence[str]
    """Every word that prompts and responses can have, each once, special tokens left out."""
    demonstrations: Callable[[int, Play], Iterator[Row]] | None = None
    """From a seed and the trials wanted to an endless stream of rows, the same for the same arguments, of
    whole trials on instances of the train split in the order of play. None: it isn't played in this format,
    whose words are for advice alone."""
    hints: Callable[[int], Iterator[Row]] | None = None
    """From a seed to an endless stream of prompts for advice with hints that are well formed and no better
    than chance, ended by ` <eos>`: what a tiny memory policy begins with (Mem-π)."""
    sights: Callable[[int], Iterator[bytes]] | None = None
    """From the same seed to the pictures (PNG) that the prompts of `hints` are asked with, one each; None:
    with these options there are none."""

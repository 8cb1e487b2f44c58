"""EMPO²'s three modes of an update, and how they are drawn (arXiv 2602.23008).

    1 - p       `plain`        rolled out without tips, updated on that prompt
    p (1 - q)   `tips`         rolled out with tips, updated on the prompt with them
    p q         `off_policy`   rolled out with tips, updated on the prompt without them

The draw is a pure function of (seed, update), so a resumed run draws the same, and it is carried on the
update's tickets: however late a trial comes in, it is trained in the mode that it was rolled out in.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

_STREAM = 0x7E9
"""Keeps these draws apart from others of the same seed."""


class UpdateMode(StrEnum):
    """See the module's docstring. The value stands in `Mode.draw`."""

    PLAIN = "plain"
    TIPS = "tips"
    OFF_POLICY = "off_policy"

    @property
    def recalls(self) -> bool:
        """Whether prompts show tips in the rollout."""
        return self is not UpdateMode.PLAIN


@dataclass(frozen=True, slots=True)
class ModeDraw:
    """`p`: probability of a rollout with tips; `q`: of an off-policy update after one. Both in [0, 1]."""

    seed: int
    p: float = 0.25
    q: float = 2 / 3

    def __post_init__(self) -> None:
        for name, value in (("p", self.p), ("q", self.q)):
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} is {value}: a probability lies in [0, 1]")

    def of(self, update: int) -> UpdateMode:
        """The mode of update number `update` (0, 1, …)."""
        with_tips, off_policy = np.random.default_rng((self.seed, _STREAM, update)).random(2)
        if with_tips >= self.p:
            return UpdateMode.PLAIN
        return UpdateMode.OFF_POLICY if off_policy < self.q else UpdateMode.TIPS

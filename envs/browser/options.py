"""What can be set for every environment in a browser. A benchmark's `Options` inherit from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envs.options import require


@dataclass(frozen=True, slots=True)
class BrowserOptions:
    """A subclass that has a `__post_init__` of its own calls `BrowserOptions.__post_init__(self)` in it."""

    max_turns: int = 10
    """Turns of an episode; for the trial loop."""
    history_turns: int = 10
    """Turns of the running attempt that a prompt shows."""
    observation: Literal["axtree", "html"] = "axtree"
    """How a page is told: its accessibility tree, or its HTML (longer, but shows drawings' parts, too)."""
    observation_chars: int = 8000
    """A longer page is cut there, and the text says so."""
    coordinates: bool = False
    """Tell where each element's centre is, as the mouse actions count (pixels of the screenshot)."""
    screenshot: bool = False
    """Give a picture of the page after each turn: PNG bytes in `info["screenshot"]`."""
    pre_observation_delay_s: float = 0.05
    """How long a page may react to an action before it is observed (BrowserGym's own: 0.5)."""
    action_timeout_s: float = 2.0
    """How long an element may take until an action on it is possible (BrowserGym's own: 0.5, which a busy
    machine needs for a plain click)."""
    chromium: str = ""
    """The browser's executable. Empty: what `AGENTMEM_CHROMIUM` names, or else the first one on the path."""

    def __post_init__(self) -> None:
        require(self.max_turns >= 1, "max_turns", self.max_turns, "at least 1")
        require(self.history_turns >= 0, "history_turns", self.history_turns, "at least 0")
        most = self.observation_chars
        require(most >= 100, "observation_chars", most, "at least 100")
        wait = self.action_timeout_s
        require(0 < wait <= 60, "action_timeout_s", wait, "above 0, to 60")
        delay = self.pre_observation_delay_s
        require(0 <= delay <= 10, "pre_observation_delay_s", delay, "from 0 to 10")

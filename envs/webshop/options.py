"""What can be set for WebShop. The defaults are the published benchmark on its official 1,000 products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envs.options import require


@dataclass(frozen=True, slots=True)
class Options:
    """`max_turns` is for the trial loop. Data paths are absolute or relative to the data directory."""

    goals: Literal["synthetic", "human"] = "synthetic"
    """Instructions made from attributes and options (6,910 on 1,000 products), or written by people (13)."""
    eval_goals: int = 500
    """Goals with a lower index are `eval`, the others `train`. The papers' split is 500."""
    observation: Literal["text", "text_rich"] = "text"
    """`text`: the page's texts joined by ` [SEP] `. `text_rich`: a line each, buttons and choices marked."""
    show_attributes: bool = False
    """Item pages have a button for the product's attributes (the benchmark hides them by default)."""
    reward: Literal["score", "win"] = "score"
    """Reward of a purchase: the benchmark's score (0 to 1), or 10 if the score is 1 and else 0 (LaMer)."""
    repair_option_matching: bool = False
    """Compare a synthetic goal's options by their values. The benchmark compares (name, value) pairs and so
    misses some that were chosen rightly (6.6 % of the goals can't reach 1); see `reward.py`."""
    max_turns: int = 15
    history_turns: int = 15
    """Turns of the running attempt that a prompt shows."""
    max_page_chars: int = 4000
    """Longest page in a prompt; a longer one is cut in its middle, with a mark."""
    admissible: bool = False
    """List what can be clicked, and one search, as admissible actions."""
    catalogue: str = "webshop/items_shuffle_1000.json.gz"
    """The products: JSON in the benchmark's form, may be gzipped."""
    attributes: str = "webshop/items_ins_v2_1000.json"
    """The products' attributes and synthetic instructions."""
    human_instructions: str = "webshop/items_human_ins_subset13.json"
    """The instructions of people, by product."""

    def __post_init__(self) -> None:
        require(self.eval_goals >= 1, "eval_goals", self.eval_goals, "at least 1")
        require(self.max_turns >= 1, "max_turns", self.max_turns, "at least 1")
        require(self.history_turns >= 0, "history_turns", self.history_turns, "at least 0")
        require(self.max_page_chars >= 100, "max_page_chars", self.max_page_chars, "at least 100")
        for key in ("catalogue", "attributes", "human_instructions"):
            require(bool(getattr(self, key)), key, getattr(self, key), "a path")

"""The prompts of the environments in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envs.base import EpisodeRecord, ParsedAction, Step, View
from envs.browser.actions import described, read
from envs.browser.options import BrowserOptions
from envs.chat import ChatStyle, tagged

_RULES = """\
You use a web browser to carry out a task. {about}

Each turn you are shown {page} An action names an element by its number in quotes (its bid).

Each turn you do one action, written as a call with plain values. The actions:
{actions}

Think first as long as you need, then give your answer as <action>{example}</action>."""
_PAGES = {
    "axtree": (
        "the page as its accessibility tree, where indentation means being inside, and an element that you "
        "can act on has its number in brackets before it, as in [12] button 'Send'."
    ),
    "html": "the page's HTML, where the attribute bid is an element's number.",
}
_TOLD_CHARS = 600
"""How much of the last page the account of an episode repeats."""


@dataclass(frozen=True, slots=True)
class BrowserStyle(ChatStyle):
    """See `envs.chat` for the layout of the messages."""

    options: BrowserOptions
    actions: tuple[str, ...]
    """The benchmark's own actions, by name."""
    about: str
    """What the benchmark's tasks are like, in a sentence or two."""
    example: str = "click('12')"

    @property
    def history_turns(self) -> int:
        """As the options say."""
        return self.options.history_turns

    def rules(self, view: View) -> str:
        """What it is about, the actions, and the form of an answer."""
        return _RULES.format(
            about=self.about,
            page=_PAGES[self.options.observation],
            actions=described(self.actions),
            example=self.example,
        )

    def situation(self, observation: str) -> str:
        """The page; its first line says what it is."""
        return observation

    def outcome(self, step: Step) -> str:
        """Says that an answer wasn't possible; what an action led to can be seen."""
        if step.invalid and not step.actions:
            return "Your last answer held no action in the asked form; nothing was done."
        return "Your last action was not possible; nothing was done." if step.invalid else ""

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The call in the last action tag, read strictly (see `actions.read`); else invalid."""
        action = read((tagged(response, "action") or "").strip().strip("`"), self.actions)
        return ParsedAction((), invalid=True) if action is None else ParsedAction((action,))

    def summarise(self, episode: EpisodeRecord) -> str:
        """The action of each turn, and the beginning of the last page."""
        turns = []
        for number, step in enumerate(episode.steps, 1):
            done = "; ".join(step.actions) or "nothing (no action in the asked form)"
            turns.append(f"Turn {number}: {done}{' (not possible)' if step.invalid and step.actions else ''}")
        page = episode.final_observation
        cut = page if len(page) <= _TOLD_CHARS else page[:_TOLD_CHARS] + " …"
        return "\n".join(["What you did:", *turns, "The page at the end began:", cut])

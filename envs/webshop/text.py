"""WebShop's chat messages; one action a turn, in a tag after free thought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from envs.base import EpisodeRecord, ParsedAction, Step, View
from envs.chat import ChatStyle, tagged
from envs.shortened import shortened_middle
from envs.webshop import actions
from envs.webshop.options import Options
from envs.webshop.pages import BUTTONS, BUY, without_instruction

_RULES = """\
You shop in an online store for somebody who tells you what to buy. Find a product of the wanted kind \
with the wanted properties, choose the wanted options (size, colour and so on) and buy it for less than \
the price limit. What you buy is scored from 0 to 1; only a purchase that meets every wish reaches 1.

Each turn you see one page and do one thing:
search[words] searches the store. It works on the first page only; click[back to search] leads there.
click[label] clicks what the page shows: a product's code, a button, or an option's value.

A search gives up to 50 products, ten a page (click[next >], click[< prev]). A product's page shows its \
options and has the buttons Description, Features and Reviews. click[buy now] there ends your shopping: \
choose every wanted option first.

Think first as long as you need, then give your answer as <action>search[red running shoes]</action> or \
<action>click[buy now]</action>."""


@dataclass(frozen=True, slots=True)
class TextStyle(ChatStyle):
    """See `envs.chat` for the layout of the messages."""

    options: Options

    @property
    def history_turns(self) -> int:
        """As the options say."""
        return self.options.history_turns

    def rules(self, view: View) -> str:
        """The task, the shop, and the form of an answer."""
        return _RULES

    def situation(self, observation: str) -> str:
        """The page without the instruction (it stands at the beginning), shortened if it is too long."""
        page = shortened_middle(without_instruction(observation), self.options.max_page_chars)
        return f"The page:\n{page}"

    def outcome(self, step: Step) -> str:
        """Says what a page doesn't: that an action wasn't possible, or which option was chosen."""
        if step.invalid:
            return "Your last answer was not possible on that page; nothing happened."
        parsed = actions.parse(step.actions[0]) if step.actions else None
        on_item_page = BUY in step.observation
        if parsed and parsed[0] == "click" and on_item_page and parsed[1].lower() not in BUTTONS:
            return f"You chose: {parsed[1]}."
        return ""

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The action in the last action tag. Whether the page has it, the environment says."""
        parsed = actions.parse(tagged(response, "action") or "")
        return ParsedAction((f"{parsed[0]}[{parsed[1]}]",)) if parsed else ParsedAction((), invalid=True)

    def summarise(self, episode: EpisodeRecord) -> str:
        """The actions of each turn and the final page."""
        turns = [
            f"Turn {number}: {'nothing possible' if step.invalid else '; '.join(step.actions)}"
            for number, step in enumerate(episode.steps, 1)
        ]
        page = shortened_middle(without_instruction(episode.final_observation), self.options.max_page_chars)
        return "\n".join(["What you did:", *turns, "The last page:", page])

    def _present(self, view: View) -> list[str]:
        """A search may have any words, whatever the listed one has."""
        offered = view.admissible
        if offered is not None:
            offered = tuple("search[any words]" if each.startswith("search[") else each for each in offered)
        # Named, for a dataclass with slots is made twice, and super() would look in the first one.
        return ChatStyle._present(self, replace(view, admissible=offered))

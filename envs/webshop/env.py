"""WebShop: search a shop, choose a product and its options, buy.

`search[words]` works on the page with the search bar, `click[label]` on what the page shows, whatever the
case. An action that isn't possible changes nothing. Buying ends the episode with the score of `reward.py` in
`info["score"]`; success is a score of 1.
"""

from __future__ import annotations

from typing import ClassVar

from envs.base import Info, PromptStyle, TextEnv
from envs.options import EnvSetupError
from envs.webshop import actions, pages
from envs.webshop.catalogue import Product
from envs.webshop.goals import Goal
from envs.webshop.options import Options
from envs.webshop.pages import PAGE_SIZE, Element, Page
from envs.webshop.reward import Parts, score
from envs.webshop.shop import Shop, open_shop

HITS = 50
"""Most products that a search finds."""
WIN = 10.0
"""The reward `win` of a perfect purchase (LaMer)."""


class WebShop(TextEnv):
    """One purchase at a time. See the module's docstring. `parts` says what the last score is made of."""

    name: ClassVar[str] = "webshop"

    def __init__(self, options: Options, style: PromptStyle) -> None:
        self.options = options
        self.style = style
        self.shop: Shop = open_shop(options)
        self.goal: Goal | None = None
        self.parts: Parts | None = None
        self._hits: list[int] = []
        self._number = 1
        self._visited: set[str] = set()
        self._chosen: dict[str, str] = {}

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        """Start the goal of `options["instance"]` (its index), or of `seed` where no instance is given."""
        index = (options or {}).get("instance", seed)
        if index is None:
            raise EnvSetupError("webshop: reset needs options={'instance': ...} or a seed")
        count = self.shop.goal_count
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < count:
            raise EnvSetupError(f"webshop has no instance {index!r}: goals go from 0 to {count - 1}")
        self.goal = self.shop.goal(index)
        return self.restart()

    def restart(self) -> tuple[str, Info]:
        """Back to the empty search bar."""
        self.parts = None
        self._open_search()
        return self._seen, self._info() | {"instruction": self._goal().instruction}

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        """Play one action."""
        self._goal()
        if not self._act(action):
            return self._seen, 0.0, self.parts is not None, False, self._info(invalid=True)
        reward = 0.0
        if self.parts is not None:
            won = WIN if self.parts.score == 1.0 else 0.0
            reward = self.parts.score if self.options.reward == "score" else won
        return self._seen, reward, self.parts is not None, False, self._info()

    def admissible_actions(self) -> tuple[str, ...] | None:
        """If the options ask for it: every click with an effect, or the task's own words as a search."""
        if not self.options.admissible:
            return None
        if self._kind == "search":
            return (f"search[{self._goal().instruction.partition(', and price lower')[0]}]",)
        return tuple(pages.listed(self._page))

    def _act(self, action: str) -> bool:
        """Do what an action says; whether it was possible."""
        parsed = actions.parse(action) if self.parts is None else None
        if parsed is None:
            return False
        verb, argument = parsed
        if verb == "search":
            if self._kind != "search":
                return False
            self._hits = [number for number, _ in self.shop.search(argument, HITS)]
            self._open_results(1)
            return True
        element = self._clickable.get(argument.lower())
        if element is None:
            return False
        self._click(element)
        return True

    def _click(self, element: Element) -> None:
        label = element.text
        if element.kind == "link":
            shown = self._hits[(self._number - 1) * PAGE_SIZE : self._number * PAGE_SIZE]
            products = map(self.shop.products.__getitem__, shown)
            self._product = next(product for product in products if product.asin == label)
            self._visited.add(label)
            self._chosen = {}
            self._open_item()
        elif element.kind == "choice":
            self._chosen[element.option] = label
            self._open_item()
        elif label == pages.BACK:
            self._open_search()
        elif label == pages.BUY:
            self._buy()
        elif label in pages.DETAILS:
            self._open("detail", pages.detail_page(self._goal().instruction, self._product, label))
        elif self._kind == "detail":
            self._open_item()
        elif self._kind == "item":
            self._open_results(self._number)
        else:
            self._open_results(self._number + (1 if label == pages.NEXT else -1))

    def _open_search(self) -> None:
        self._hits, self._number, self._visited, self._chosen = [], 1, set(), {}
        self._open("search", pages.search_page(self._goal().instruction))

    def _open_results(self, number: int) -> None:
        self._number = number
        shown = self._hits[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
        found = [self.shop.products[hit] for hit in shown]
        page = pages.results_page(self._goal().instruction, found, number, len(self._hits), self._visited)
        self._open("results", page)

    def _open_item(self) -> None:
        text, shown = self._goal().instruction, self.options.show_attributes
        self._open("item", pages.item_page(text, self._product, self._chosen, shown))

    def _buy(self) -> None:
        goal, repaired = self._goal(), self.options.repair_option_matching
        wanted: Product = self.shop.products[goal.product]
        self.parts = score(self._product, self._chosen, goal, wanted, self.shop.nouns, repaired=repaired)
        self._open("done", pages.done_page(self._product, self._chosen, self.parts.score))

    def _open(self, kind: str, page: Page) -> None:
        self._kind = kind
        self._page = page
        self._clickable = pages.clickable(page)
        self._seen = pages.render(page, self.options.observation)

    def _goal(self) -> Goal:
        if self.goal is None:
            raise EnvSetupError("webshop: restart or step before the first reset")
        return self.goal

    def _info(self, *, invalid: bool = False) -> Info:
        reached = self.parts.score if self.parts is not None else 0.0
        return {"success": reached == 1.0, "invalid": invalid, "score": reached}

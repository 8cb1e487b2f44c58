"""The shop's pages: what stands on them in order, and how that reads.

Texts and their order are the benchmark's, so that its prompts, logs and models fit. `text` joins the texts by
` [SEP] ` and doesn't show which options are chosen; `text_rich` has a line each, marks what can be clicked
(`[button] x [button_]`) and what was (`[clicked button] x [clicked button_]`). The last page is shorter than
the benchmark's, whose further fields are empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from envs.webshop.catalogue import Product

SEPARATOR = " [SEP] "
INSTRUCTION = "Instruction:"
SEARCH, BACK, PREVIOUS, NEXT, BUY = "Search", "Back to Search", "< Prev", "Next >", "Buy Now"
DESCRIPTION, FEATURES, REVIEWS, ATTRIBUTES = "Description", "Features", "Reviews", "Attributes"
DETAILS = (DESCRIPTION, FEATURES, REVIEWS, ATTRIBUTES)
BUTTONS = frozenset(button.lower() for button in (SEARCH, BACK, PREVIOUS, NEXT, BUY, *DETAILS))
PAGE_SIZE = 10
"""Products on a page of results."""


class Element(NamedTuple):
    """A text of a page. `kind`: `text`, `button`, `link` (to a product) or `choice` (an option's value)."""

    text: str
    kind: str = "text"
    clicked: bool = False
    option: str = ""
    """The option that a choice belongs to."""


Page = tuple[Element, ...]


def search_page(instruction: str) -> Page:
    """The first page, with the search bar."""
    return (Element("WebShop"), *_head(instruction), Element(SEARCH, "button"))


def results_page(
    instruction: str, found: Sequence[Product], number: int, total: int, visited: Set[str]
) -> Page:
    """Page `number` (from 1) of a search with `total` hits; `found` are this page's."""
    page = [*_head(instruction), Element(BACK, "button"), Element(f"Page {number} (Total results: {total})")]
    if number > 1:
        page.append(Element(PREVIOUS, "button"))
    if number * PAGE_SIZE < total:
        page.append(Element(NEXT, "button"))
    for product in found:
        page.append(Element(product.asin, "link", product.asin in visited))
        page += (Element(product.title), Element(product.price_tag))
    return tuple(page)


def item_page(instruction: str, product: Product, chosen: Mapping[str, str], attributes: bool) -> Page:
    """A product with its options. `attributes`: whether it has the button for them."""
    page = [*_head(instruction), Element(BACK, "button"), Element(PREVIOUS, "button")]
    for name, values in product.options.items():
        page.append(Element(name))
        page += (Element(value, "choice", chosen.get(name) == value, name) for value in values)
    page += map(Element, (product.title, f"Price: {product.price_tag}", "Rating: N.A."))
    shown = DETAILS if attributes else DETAILS[:-1]
    page += (Element(button, "button") for button in (*shown, BUY))
    return tuple(page)


def detail_page(instruction: str, product: Product, detail: str) -> Page:
    """What is behind one of an item page's `DETAILS` buttons."""
    texts: Sequence[str] = {
        DESCRIPTION: [product.description],
        FEATURES: product.bullets,
        REVIEWS: ["No reviews found"],
        ATTRIBUTES: [*product.attributes, product.query, product.category],
    }[detail]
    head = (*_head(instruction), Element(BACK, "button"), Element(PREVIOUS, "button"))
    return (*head, *(Element(text.strip()) for text in texts if text.strip()))


def done_page(product: Product, chosen: Mapping[str, str], score: float) -> Page:
    """The end: what was bought, and its score."""
    texts = ("Thank you for shopping with us!", "Purchased", "asin", product.asin, "options")
    ending = (json.dumps(dict(chosen)), "Your score (min 0.0, max 1.0)", str(score))
    return tuple(map(Element, (*texts, *ending)))


def render(page: Page, mode: str) -> str:
    """The page as an observation in mode `text` or `text_rich`."""
    if mode == "text":
        return SEPARATOR.join(element.text for element in page)
    chosen = [element.text for element in page if element.kind == "choice" and element.clicked]
    notes = [f"You have clicked {text}." for text in reversed(chosen)]
    return "\n".join([*notes, *(_rich(element) for element in page)])


def clickable(page: Page) -> dict[str, Element]:
    """What can be clicked on a page, by its lower-cased text.

    If a value stands under two options, the latter has it; a button's name is the button's.
    """
    found = {element.text.lower(): element for element in page if element.kind in ("choice", "link")}
    found |= {element.text.lower(): element for element in page if element.kind == "button"}
    found.pop(SEARCH.lower(), None)  # it needs words: search[...]
    return found


def without_instruction(observation: str) -> str:
    """An observation without the task's text, which a prompt shows once."""
    for separator in (SEPARATOR, "\n"):
        parts = observation.split(separator)
        if INSTRUCTION in parts[:-1]:
            at = parts.index(INSTRUCTION)
            return separator.join([*parts[:at], *parts[at + 2 :]])
    return observation


def _head(instruction: str) -> tuple[Element, Element]:
    return Element(INSTRUCTION), Element(instruction)


def _rich(element: Element) -> str:
    if element.kind == "text":
        return element.text
    marked = "clicked button" if element.clicked else "button"
    lead = {"choice": "  ", "link": "\n"}.get(element.kind, "")
    return f"{lead}[{marked}] {element.text} [{marked}_]"


def listed(page: Page) -> Iterator[str]:
    """The click actions of a page that have an effect, in the page's order."""
    for label, element in clickable(page).items():
        if label and not (element.kind == "choice" and element.clicked):
            yield f"click[{label}]"

"""The benchmark's files of products, and what is made of them.

A product's price, where the shop names a range, is drawn once; so is the price that a goal allows. Both come
from one `Random(PRICE_SEED)` in the order of the files, so that they are the same everywhere. (The benchmark
takes them from the global generator, which gives every process others.)
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from envs.options import EnvSetupError

PRICE_SEED = 42
NO_PRICE = 100.0
"""Dollars that a product costs whose price isn't known."""
_NOT_A_NUMBER = re.compile(r"[^\d.]")


class Product(msgspec.Struct, frozen=True, array_like=True):
    """A product as it is shown, searched and compared."""

    asin: str
    title: str
    description: str
    bullets: list[str]
    price: float
    """Dollars that a purchase costs."""
    price_tag: str
    """What is shown: a price or a range."""
    options: dict[str, list[str]]
    """Option names to values, both lower-cased, in the order of the page."""
    attributes: list[str]
    category: str
    """Path of category names joined by `›`."""
    query: str
    """The search by which the product was found when the catalogue was made; names its kind."""

    def searchable(self) -> str:
        """The text that the search engine reads."""
        choices = [f"{name}: {', '.join(values)}" for name, values in self.options.items()]
        return " ".join([self.title, self.description, self.bullets[0], ", and ".join(choices)])


def read_json(path: Path) -> Any:
    """The content of a JSON file, gzipped or not."""
    try:
        data = path.read_bytes()
        return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (OSError, EOFError, ValueError) as error:
        raise EnvSetupError(f"webshop: {path} can't be read as JSON ({error}): fetch it again") from None


def products(
    catalogue: Sequence[Mapping[str, Any]], notes: Mapping[str, Mapping[str, Any]], rng: random.Random
) -> Iterator[Product]:
    """The products of a catalogue in its order, each once. `notes` holds the attributes by product."""
    seen = set()
    for raw in catalogue:
        asin = raw["asin"]
        if asin == "nan" or len(asin) > 10 or asin in seen:
            continue
        seen.add(asin)
        bullets = raw["small_description"]
        prices = _prices(raw.get("pricing"))
        yield Product(
            asin=asin,
            title=raw["name"],
            description=raw["full_description"],
            bullets=(bullets or [""]) if isinstance(bullets, list) else [bullets],
            price=prices[0] if len(prices) == 1 else rng.uniform(*prices),
            price_tag=" to ".join(f"${price}" for price in prices),
            options=_options(raw["customization_options"]),
            attributes=notes.get(asin, {}).get("attributes", ["DUMMY_ATTR"]),
            category=raw["product_category"],
            query=raw["query"].lower().strip(),
        )


def _prices(tag: str | None) -> list[float]:
    """One price, or the two ends of a range as they stand (the higher may come first)."""
    found = [float(_NOT_A_NUMBER.sub("", part)) for part in (tag or "").split("$")[1:]]
    return found[:2] or [NO_PRICE]


def _options(raw: Mapping[str, Any] | str | None) -> dict[str, list[str]]:
    if not isinstance(raw, Mapping):
        return {}
    return {
        name.lower(): [choice["value"].strip().replace("/", " | ").lower() for choice in choices]
        for name, choices in raw.items()
        if choices is not None
    }

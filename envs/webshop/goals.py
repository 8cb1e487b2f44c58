"""What the shopper is asked to buy, in the benchmark's order.

A goal is a product, attributes and options that it should have, and the most it may cost. Its instruction
names them. Synthetic goals are every combination of a product's options, listed compactly (product,
combination); human ones were written by people. Both are shuffled by `Random(SHUFFLE_SEED)` as in the
benchmark, so that index i is the same goal everywhere; an index is an instance of the environment.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from envs.webshop.catalogue import Product

SHUFFLE_SEED = 233
NO_LIMIT = 1_000_000.0
"""Dollars that a goal allows whose product costs 980 or more."""
_LIMITS = [10.0 * i for i in range(1, 100)]


class Goal(msgspec.Struct, frozen=True, array_like=True):
    """A thing to buy. `options` are the wanted values; `option_names` theirs, or None where people wrote
    them."""

    product: int
    """Number of the product that it was made from."""
    instruction: str
    attributes: list[str]
    options: list[str]
    option_names: list[str] | None
    most: float
    """Dollars that the purchase may cost."""


class Wish(msgspec.Struct, frozen=True, array_like=True):
    """What the synthetic goals of one product share."""

    product: int
    text: str
    attributes: list[str]
    most: float


def wishes(
    catalogue: Sequence[Product], notes: Mapping[str, Mapping[str, Any]], rng: random.Random
) -> list[Wish]:
    """The products that synthetic goals are made from, in order; draws each one's allowed price."""
    made = []
    for number, product in enumerate(catalogue):
        note = notes.get(product.asin, {})
        if note.get("instruction") is not None:
            most = _limit(product.price, rng)
            made.append(Wish(number, note["instruction"], note["instruction_attributes"], most))
    return made


def combinations(product: Product) -> int:
    """How many synthetic goals a product gives: the ways to choose one value of each option."""
    return math.prod(map(len, product.options.values()))


def synthetic(wish: Wish, product: Product, combination: int) -> Goal:
    """The goal that wants a product with its `combination`-th choice of options."""
    names = sorted(product.options)
    ways = itertools.product(*(product.options[name] for name in names))
    values = next(itertools.islice(ways, combination, None))
    chosen = ", and ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True))
    text = wish.text + (f" with {chosen}" if chosen else "") + _priced(wish.most)
    return Goal(wish.product, text, wish.attributes, list(values), names, wish.most)


def human(
    catalogue: Sequence[Product], written: Mapping[str, Sequence[Mapping[str, Any]]], rng: random.Random
) -> Iterator[Goal]:
    """The goals written by people for these products, in the catalogue's order; those without attributes
    are left out, as in the benchmark."""
    for number, product in enumerate(catalogue):
        for note in written.get(product.asin, ()):
            attributes = note["instruction_attributes"]
            if attributes:
                most = _limit(product.price, rng)
                text = note["instruction"].strip(".") + _priced(most)
                yield Goal(number, text, attributes, note["instruction_options"], None, most)


def shuffled(count: int) -> list[int]:
    """The benchmark's order of so many goals."""
    order = list(range(count))
    random.Random(SHUFFLE_SEED).shuffle(order)
    return order


def _limit(price: float, rng: random.Random) -> float:
    """The upper of two random ones of the next four multiples of 10 dollars above a price."""
    above = [limit for limit in _LIMITS if limit > price][:4]
    return max(rng.sample(above, 2)) if len(above) >= 2 else NO_LIMIT


def _priced(most: float) -> str:
    return "" if most == NO_LIMIT else f", and price lower than {most:.2f} dollars"

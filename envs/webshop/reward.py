"""The benchmark's score of a purchase, from 0 to 1.

    score = kind · (attributes met + options met + [price ≤ allowed]) / (attributes + options + 1)

- An attribute is met if one of the product's is alike (`token_set_ratio` > 85), or if it stands in the title,
  the bullet points or the description.
- An option is met if a chosen value is alike, after `colours.simplified` on both sides.
- kind is 1 for the same kind of product, and less (0.5, 0.1, 0) the less of the wanted title's nouns stand in
  the bought one's.

The published code compares a synthetic goal's options as pairs: `('color', 'black2626')` is compared as that
very text, and is not simplified, while the chosen `black2626` becomes `black`. Some rightly chosen options
are missed so. `repaired=True` compares the values. Goals written by people have values alone, and aren't
affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from envs.webshop.catalogue import Product
from envs.webshop.colours import simplified
from envs.webshop.goals import Goal

ALIKE = 85
"""Two texts are alike if their token set ratio (0 to 100) is more."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a score is made of: the kind's factor, how many of each were met, whether the price was."""

    kind: float
    attributes: int
    options: int
    price: bool
    score: float


def score(
    bought: Product,
    chosen: Mapping[str, str],
    goal: Goal,
    wanted: Product,
    nouns: Callable[[str], Sequence[str]],
    *,
    repaired: bool = False,
) -> Parts:
    """The score of buying a product with these options. `wanted` is the product that the goal was made
    from."""
    kind = kind_factor(bought, wanted, nouns)
    attributes = sum(attribute_met(bought, attribute) for attribute in goal.attributes)
    options = options_met(chosen.values(), goal, repaired=repaired)
    price = bought.price <= goal.most
    total = (attributes + options + price) / (len(goal.attributes) + len(goal.options) + 1)
    return Parts(kind, attributes, options, price, total * kind)


def kind_factor(bought: Product, wanted: Product, nouns: Callable[[str], Sequence[str]]) -> float:
    """How far a product is of the wanted kind."""
    asked = nouns(wanted.title)
    shared = len({*asked} & {*nouns(bought.title)}) / len(asked) if asked else 0.2
    if shared == 0:
        return 0.0
    if shared < 0.1:
        return 0.1
    common = _category(bought) & _category(wanted)
    return 1.0 if bought.query == wanted.query or len(common) >= 2 or shared > 0.2 else 0.5


def attribute_met(bought: Product, attribute: str) -> bool:
    """Whether a product has an attribute, in its list or in its texts."""
    return (
        any(alike(own, attribute) for own in bought.attributes)
        or attribute in bought.title.lower()
        or attribute in " ".join(bought.bullets).lower()
        or attribute in bought.description.lower()
    )


def options_met(chosen: Iterable[str], goal: Goal, *, repaired: bool = False) -> int:
    """How many of a goal's options are alike to some chosen value."""
    have = [simplified(value) for value in chosen]
    if goal.option_names is None or repaired:
        want = [simplified(value) for value in goal.options]
    else:
        want = [str(pair) for pair in zip(goal.option_names, goal.options, strict=True)]
    return sum(any(alike(mine, asked) for mine in have) for asked in want)


def alike(one: str, other: str) -> bool:
    """Whether two texts share most of their words, in any order and number."""
    from thefuzz.fuzz import token_set_ratio

    return bool(token_set_ratio(one, other) > ALIKE)


def _category(product: Product) -> set[str]:
    return {part.strip() for part in product.category.split("›")}

"""The benchmark's simplification of option values: a value that contains a colour's name becomes that name.

The first of the list that occurs anywhere in the value wins, inside of words, too (`fashion` becomes `ash`),
and all options are treated so, not only colours.
"""

from __future__ import annotations

_NAMES = """
    alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown
    burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee
    cognac copper coral cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold
    granite grape graphite grass gray green grey heather indigo ivory ivy khaki lavender lemon
    leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom
    mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust
    sand sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger
    turquoise violet walnut wheat white wine yellow
"""
COLOURS = tuple(_NAMES.split())


def simplified(value: str) -> str:
    """The first colour that occurs in a value, or the value."""
    return next((colour for colour in COLOURS if colour in value), value)

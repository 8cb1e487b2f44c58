"""Long texts in prompts: what is left out is said."""

from __future__ import annotations

from collections.abc import Sequence


def shortened(text: str, most: int) -> str:
    """The first `most` characters of a text, followed by how many are left out if any are."""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most].rstrip()} [… {left} more characters left out]"


def shortened_list(items: Sequence[str], most: int) -> tuple[str, ...]:
    """The first items that fit into `most` characters (at least one), and how many are left out, if any."""
    length = 0
    for count, item in enumerate(items):
        length += len(item) + 2
        if count and length > most:
            return (*items[:count], f"[… {len(items) - count} more left out]")
    return tuple(items)

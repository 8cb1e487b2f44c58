"""Long texts in prompts: what is left out is said."""

from __future__ import annotations

from collections.abc import Sequence

MARK = " [… {left} more characters left out]"


def shortened(text: str, most: int, mark: str = MARK) -> str:
    """The first `most` characters of a text, followed by how many are left out if any are.

    `mark` says so, with `{left}` for their number.
    """
    left = len(text) - most
    return text if left <= 0 else text[:most].rstrip() + mark.format(left=left)


def shortened_middle(text: str, most: int) -> str:
    """A text of about `most` characters: its middle, if it is longer, is replaced by a mark."""
    left = len(text) - most
    if left <= 0:
        return text
    head = most * 3 // 4
    return f"{text[:head]} [... {left} characters left out ...] {text[head + left :]}"


def shortened_list(items: Sequence[str], most: int) -> tuple[str, ...]:
    """The first items that fit into `most` characters (at least one), and how many are left out, if any."""
    length = 0
    for count, item in enumerate(items):
        length += len(item) + 2
        if count and length > most:
            return (*items[:count], f"[… {len(items) - count} more left out]")
    return tuple(items)

"""What both environments do to text that a model will see."""

from __future__ import annotations

CUT = "… ({left} more characters are not shown)"


def shortened(text: str, limit: int) -> str:
    """The first `limit` characters, and a mark saying how many were left out."""
    return text if len(text) <= limit else text[:limit] + CUT.format(left=len(text) - limit)

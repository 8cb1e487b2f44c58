"""The form of an action: `search[words]` or `click[label]`."""

from __future__ import annotations

import re

_FORM = re.compile(r"\s*(search|click)\s*\[(.*)\]\s*", re.DOTALL | re.IGNORECASE)


def parse(text: str) -> tuple[str, str] | None:
    """(verb, argument) with lower-cased verb and single spaces in the argument; None if it is no action."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    argument = " ".join(match[2].split())
    return (match[1].lower(), argument) if argument else None

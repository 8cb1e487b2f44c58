"""What is left of a text or a prompt that is too long."""

from __future__ import annotations

import re
from collections.abc import Sequence

_END = re.compile(r"""[.!?…]["'»”’)\]]*(?=\s|$)|[。！？]|\n""")
"""Where a sentence ends: its mark with what closes behind it, then a blank or nothing; or a line's end."""


def keep_ends(ids: Sequence[int], limit: int) -> tuple[int, ...]:
    """At most `limit` ids: the head and the tail, equally long (the tail has the odd one).

    A prompt's head says what it is about, and its tail is where the answer begins.
    """
    if limit < 2:
        raise ValueError(f"limit is {limit}: a head and a tail need at least 2")
    if len(ids) <= limit:
        return tuple(ids)
    head = limit // 2
    return (*ids[:head], *ids[len(ids) - (limit - head) :])


def full_sentences(text: str) -> str:
    """A text that was cut somewhere, up to the end of its last full sentence; empty if it has none."""
    ends = [match.end() for match in _END.finditer(text)]
    return text[: ends[-1]].rstrip() if ends else ""

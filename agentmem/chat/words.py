"""A short cut for word-level tokenizers: a dictionary look-up per word, about a microsecond per prompt.

It answers only where its answer is provably the tokenizer's: the file describes a word-level model over
whitespace-separated words without normaliser, no special token hides inside another word, the text has no
control characters (on which Python and the tokenizer disagree whether they separate words), and every word is
known. Otherwise `encode` gives None and the tokenizer itself is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WordTable:
    """Word -> id."""

    ids: dict[str, int]

    def encode(self, text: str) -> list[int] | None:
        """The ids of a text of known words, else None."""
        if not text.isprintable():
            return None
        table = self.ids
        try:
            return [table[word] for word in text.split()]
        except KeyError:
            return None


def word_table(tokenizer: dict[str, Any]) -> WordTable | None:
    """The table of a tokenizer.json, None where the short cut wouldn't be exact."""
    model = tokenizer.get("model") or {}
    splitter = tokenizer.get("pre_tokenizer") or {}
    if model.get("type") != "WordLevel" or splitter.get("type") != "WhitespaceSplit":
        return None
    if tokenizer.get("normalizer") is not None:
        return None
    added = {token["content"]: int(token["id"]) for token in tokenizer.get("added_tokens") or ()}
    ids = {str(word): int(i) for word, i in model["vocab"].items()}
    if any(len(token.split()) != 1 or token.strip() != token for token in added):
        return None
    if any(token in word and token != word for token in added for word in (*ids, *added)):
        return None
    return WordTable({**ids, **added})

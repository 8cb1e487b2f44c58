"""From text to search terms, as Lucene's English analyzer with the Porter stemmer does it.

Words are cut by the default rules of Unicode's word boundaries (UAX #29) as far as they matter here: letters,
digits and `_` belong together; `.`, `'`, `:` and `·` join letters, and `.`, `,`, `;` and `'` join digits.
Then a possessive `'s` is dropped, stop words go, and the rest is stemmed. Of nltk's stemmers, the one with
Martin Porter's own extensions is nearest to Lucene's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORD = re.compile(r"\w+(?:(?:(?<=[^\W\d_])[.'’:·](?=[^\W\d_])|(?<=\d)[.,;'’](?=\d))\w+)*")
_POSSESSIVE = ("'s", "’s")
_STOPPED = """
    a an and are as at be but by for if in into is it no not of on or such that the their then there these
    they this to was will with
"""
STOP_WORDS = frozenset(_STOPPED.split())
_REMEMBERED = 100_000
"""Stems that are kept. Queries are made by models, so their words have no end."""


class Analyzer:
    """Callable: the terms of a text in order."""

    def __init__(self) -> None:
        from nltk.stem.porter import PorterStemmer

        self._stem = PorterStemmer(mode=PorterStemmer.MARTIN_EXTENSIONS).stem
        self._stems: dict[str, str] = {}

    def __call__(self, text: str) -> list[str]:
        return list(self._terms(text))

    def _terms(self, text: str) -> Iterator[str]:
        for word in _WORD.findall(text.lower()):
            if word.endswith(_POSSESSIVE):
                word = word[:-2]
            if not word or word in STOP_WORDS:
                continue
            stem = self._stems.get(word)
            if stem is None:
                if len(self._stems) >= _REMEMBERED:
                    self._stems.clear()
                stem = self._stems[word] = self._stem(word)
            yield stem

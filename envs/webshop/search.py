"""BM25 as Lucene computes it, over an index that lies in files and is shared by all processes that map it.

    score(d) = Σ_t  n_t · ln(1 + (N - df_t + ½)/(df_t + ½)) · tf / (tf + k1·(1 - b + b·|d|/avg))

with k1 = 0.9 and b = 0.4 (Anserini's), n_t the times that term t stands in the query, and |d| the length of
document d in Lucene's one-byte form. Equal scores are ordered by document number. A posting holds its
finished weight, so that a search is one addition per posting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from envs.webshop.analysis import Analyzer
from envs.webshop.records import mapped

K1, B = 0.9, 0.4


def byte_length(length: int) -> int:
    """A document's length as Lucene keeps it in one byte (`SmallFloat.intToByte4` and back).

    Below 40 it is exact; above, the leading four binary digits of what exceeds 24 are kept.
    """
    free = 24
    excess = length - free
    if excess < 8:
        return length
    dropped = excess.bit_length() - 4
    return free + (excess >> dropped << dropped)


def build(documents: Iterable[str], into: Path) -> None:
    """Write the index of these documents, numbered from 0, into a directory."""
    analyze = Analyzer()
    postings: dict[str, list[tuple[int, int]]] = {}
    lengths: list[int] = []
    for number, document in enumerate(documents):
        terms = analyze(document)
        lengths.append(len(terms))
        for term, count in Counter(terms).items():
            postings.setdefault(term, []).append((number, count))
    count = len(lengths)
    average = sum(lengths) / count
    norms = np.array([K1 * (1 - B + B * byte_length(length) / average) for length in lengths])
    terms = sorted(postings)
    places = np.zeros(len(terms) + 1, dtype=np.int64)
    np.cumsum([len(postings[term]) for term in terms], out=places[1:])
    holders = np.empty(places[-1], dtype=np.int32)
    weights = np.empty(places[-1], dtype=np.float32)
    for term, start, end in zip(terms, places, places[1:], strict=False):
        held = np.array(postings[term])
        idf = np.log(1 + (count - len(held) + 0.5) / (len(held) + 0.5))
        holders[start:end] = held[:, 0]
        weights[start:end] = idf * held[:, 1] / (held[:, 1] + norms[held[:, 0]])
    (into / "terms.txt").write_text("\n".join(terms), encoding="utf-8")
    for name, array in (("places", places), ("holders", holders), ("weights", weights)):
        np.save(into / f"{name}.npy", array)


class Searcher:
    """Searches the index in a directory. `documents` is their number."""

    def __init__(self, directory: Path, documents: int) -> None:
        terms = (directory / "terms.txt").read_text(encoding="utf-8").split("\n")
        self._numbers = {term: number for number, term in enumerate(terms)}
        self._places = mapped(directory / "places.npy").tolist()
        self._holders = mapped(directory / "holders.npy")
        self._weights = mapped(directory / "weights.npy")
        self._documents = documents
        self._analyze = Analyzer()

    def __call__(self, query: str, limit: int) -> list[tuple[int, float]]:
        """The best documents, best first: (number, score). A document without any of the terms is no hit."""
        scores = np.zeros(self._documents, dtype=np.float32)
        for term, times in Counter(self._analyze(query)).items():
            number = self._numbers.get(term)
            if number is not None:
                held = slice(self._places[number], self._places[number + 1])
                scores[self._holders[held]] += self._weights[held] * np.float32(times)
        found = np.flatnonzero(scores)
        if len(found) > limit:
            least = np.partition(scores[found], -limit)[-limit]
            found = found[scores[found] >= least]
        best = found[np.argsort(-scores[found], kind="stable")[:limit]]
        return list(zip(best.tolist(), scores[best].tolist(), strict=True))

"""A catalogue with its search engine and goals, opened from an index that is made once for all processes.

The index is a directory of the cache (see `envs.data`): products, wishes and human goals as records, the
search engine's arrays, the order of the goals, and the nouns of the titles. Nearly all of it is mapped, so
opening is quick and processes share the memory. The environments of one process share one `Shop`.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
from pathlib import Path

import msgspec
import numpy as np

from envs.data import data_file, made_once, missing_files
from envs.options import EnvSetupError
from envs.webshop import goals, records, search
from envs.webshop.catalogue import PRICE_SEED, Product, products, read_json
from envs.webshop.goals import Goal, Wish
from envs.webshop.options import Options
from envs.webshop.titles import TitleNouns, nouns_of

FORMAT = 1
"""Changes with what the index holds, so that an older one isn't read."""
PARSED_TITLES = 20_000
"""Catalogues up to this size have their titles parsed when the index is made; others when a title is
needed."""


class Shop:
    """Read access to a made index. `kind` of goals: `synthetic` or `human`."""

    def __init__(self, place: Path, kind: str) -> None:
        self.products = records.Records(place, "products", Product)
        self.search = search.Searcher(place, len(self.products))
        self.nouns = TitleNouns(
            msgspec.msgpack.decode((place / "nouns.msgpack").read_bytes(), type=dict[str, list[str]])
        )
        self._order = records.mapped(place / f"{kind}-order.npy")
        self._human = records.Records(place, "human", Goal) if kind == "human" else None
        self._wishes = records.Records(place, "wishes", Wish)
        self._ends = records.mapped(place / "wishes-end.npy")

    @property
    def goal_count(self) -> int:
        """Goals are numbered from 0 up to here."""
        return len(self._order)

    def goal(self, index: int) -> Goal:
        """A goal by its place in the benchmark's order."""
        number = int(self._order[index])
        if self._human is not None:
            return self._human[number]
        at = int(np.searchsorted(self._ends, number, side="right"))
        wish = self._wishes[at]
        first = int(self._ends[at - 1]) if at else 0
        return goals.synthetic(wish, self.products[wish.product], number - first)


def open_shop(options: Options) -> Shop:
    """The shop of these options; its index is made if it isn't there. Raises EnvSetupError if data are
    missing."""
    paths = tuple(str(data_file("webshop", path)) for path in _sources(options))
    return _opened(paths, options.goals)


def missing(options: Options) -> list[str]:
    """What the shop of these options lacks, a line each."""
    return missing_files("webshop", _sources(options))


def _sources(options: Options) -> tuple[str, str, str]:
    return options.catalogue, options.attributes, options.human_instructions


@functools.lru_cache(maxsize=4)
def _opened(paths: tuple[str, str, str], kind: str) -> Shop:
    catalogue, *others = map(Path, paths)
    # `made_once` tells catalogues apart; the other two files and the format belong to the index's name.
    stats = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in others]
    key = hashlib.sha256(repr((FORMAT, stats)).encode()).hexdigest()[:8]
    return Shop(made_once(f"webshop-{key}", catalogue, functools.partial(_make, paths)), kind)


def _make(paths: tuple[str, str, str], into: Path) -> None:
    raw, notes, written = (read_json(Path(path)) for path in paths)
    try:
        rng = random.Random(PRICE_SEED)
        found = list(products(raw, notes, rng))
        # Each kind of goals draws its prices right after the products have drawn theirs, as in the benchmark.
        drawn = rng.getstate()
        wishes = goals.wishes(found, notes, rng)
        rng.setstate(drawn)
        people = list(goals.human(found, written, rng))
    except (KeyError, TypeError, AttributeError) as error:
        raise EnvSetupError(f"webshop: {paths[0]} isn't in the benchmark's form ({error!r})") from None
    if not found:
        raise EnvSetupError(f"webshop: {paths[0]} holds no product")
    records.write(into, "products", found)
    records.write(into, "wishes", wishes)
    records.write(into, "human", people)
    ends = list(itertools.accumulate(goals.combinations(found[wish.product]) for wish in wishes))
    np.save(into / "wishes-end.npy", np.array(ends, dtype=np.int64))
    for kind, count in (("synthetic", ends[-1] if ends else 0), ("human", len(people))):
        np.save(into / f"{kind}-order.npy", np.array(goals.shuffled(count), dtype=np.int64))
    search.build((product.searchable() for product in found), into)
    titles = list(dict.fromkeys(product.title for product in found)) if len(found) <= PARSED_TITLES else []
    nouns = dict(zip(titles, nouns_of(titles), strict=True))
    (into / "nouns.msgpack").write_bytes(msgspec.msgpack.encode(nouns))

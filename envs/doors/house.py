"""Houses and the hidden rule.

A house is rooms of different kinds in some order; it is addressed by their names, `hall-attic-stable`. Which
door leads on depends on the kind of the room alone, by one rule for all houses (option `rule`), so what was
learnt in some houses holds in all. A fifth of the orders is held out, by crc32 of the instance's name.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import permutations
from zlib import crc32

from envs.base import Instance
from envs.doors.options import Options
from envs.options import EnvSetupError


@lru_cache(maxsize=256)
def rule_of(rule: int, kinds: tuple[str, ...], doors: tuple[str, ...]) -> Mapping[str, str]:
    """The door that leads on, for each kind of room; drawn from the rule's seed alone."""
    rng = random.Random(rule)
    return {kind: rng.choice(doors) for kind in kinds}


@lru_cache(maxsize=16)
def _orders(kinds: tuple[str, ...], rooms: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    parts: tuple[list[str], list[str]] = ([], [])
    for order in permutations(kinds, rooms):
        name = "-".join(order)
        parts[crc32(name.encode("ascii")) % 5 == 0].append(name)
    # Mixed, so that the first few of a split have all kinds everywhere.
    for part in parts:
        random.Random(0).shuffle(part)
    return tuple(parts[0]), tuple(parts[1])


def instances(options: Options, split: str) -> Sequence[Instance]:
    """All houses of a split, always in the same order; of `train` the first `houses` where that is set."""
    train, held_out = _orders(options.kind_words, options.rooms)
    if split == "eval":
        return held_out
    return train[: options.houses] if options.houses else train


def rooms_of(options: Options, instance: Instance) -> tuple[str, ...]:
    """The kinds of a house's rooms. Raises EnvSetupError naming one that doesn't exist."""
    rooms = tuple(instance.split("-")) if isinstance(instance, str) else ()
    if len(set(rooms)) != options.rooms or len(rooms) != options.rooms or set(rooms) - {*options.kind_words}:
        raise EnvSetupError(
            f"doors has no instance {instance!r}: it must name {options.rooms} different rooms of "
            f"{', '.join(options.kind_words)}, joined by -"
        )
    return rooms

"""Instances of several environments in one run: what an instance is called there, and whose it is.

    @doors/hall-attic-cellar      instance `hall-attic-cellar` of the domain `doors`
    @small-board#17               instance 17 (a whole number) of the domain `small-board`

A *domain* is one environment of a mixture, under a name of its own, so the same environment may be there
twice with other options. The instances of any other environment have no domain, which is the empty name.
(`agentmem.trajectory.Task.domain` reads the same notation.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from envs.base import Instance

DOMAIN = re.compile(r"[a-z0-9][a-z0-9_-]*")
_NAMED = re.compile(rf"@({DOMAIN.pattern})(/|#)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Part:
    """The instances of a split that belong to one domain, as that domain's environment calls them."""

    domain: str
    environment: str
    instances: Sequence[Instance]


def named(domain: str, instance: Instance) -> str:
    """What a domain's instance is called in a mixture."""
    return f"@{domain}#{instance}" if isinstance(instance, int) else f"@{domain}/{instance}"


def parted(instance: Instance) -> tuple[str, Instance]:
    """The domain, and what the instance is called there; without a domain the same instance."""
    found = _NAMED.fullmatch(instance) if isinstance(instance, str) else None
    if found is None:
        return "", instance
    domain, kind, own = found.groups()
    if kind == "/":
        return domain, own
    return (domain, int(own)) if own.lstrip("-").isdecimal() else ("", instance)


def domain_of(instance: Instance) -> str:
    """The domain of an instance; empty where it has none."""
    return parted(instance)[0]


class Named(Sequence[Instance]):
    """The instances of several domains behind each other, called as in a mixture; made when they are asked
    for."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = [part for part in parts if part.instances]
        self._length = sum(len(part.instances) for part in self._parts)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Instance: ...
    @overload
    def __getitem__(self, index: slice) -> list[Instance]: ...
    def __getitem__(self, index: int | slice) -> Instance | list[Instance]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._length))]
        at = index + self._length if index < 0 else index
        if at >= 0:
            for part in self._parts:
                if at < len(part.instances):
                    return named(part.domain, part.instances[at])
                at -= len(part.instances)
        raise IndexError(index)

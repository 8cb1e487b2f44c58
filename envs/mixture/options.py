"""What can be set for a mixture: its domains, how often each is trained on, and which aren't at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from envs import registry
from envs.domains import DOMAIN
from envs.options import EnvSetupError, require


@dataclass(frozen=True, slots=True)
class Domain:
    """One environment of a mixture."""

    env: str = ""
    """A name of `agentmem envs list`; empty: the domain's own name."""
    weight: float = 1.0
    """Of two domains with weights 2 and 1 the first gets two of three training groups, in every update as
    nearly as its number of groups allows."""
    max_turns: int = 0
    """Turns of an episode here, if fewer than `env.max_turns`; 0: as there."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The environment's own."""


def _two_games() -> dict[str, Domain]:
    return {"doors": Domain(), "minesweeper": Domain()}


@dataclass(frozen=True, slots=True)
class Options:
    """Which environments, and how they are mixed."""

    domains: Mapping[str, Domain] = field(default_factory=_two_games)
    """By a name of one's own, as it stands in results."""
    leave_out: tuple[str, ...] = ()
    """Domains that are evaluated and never trained on."""

    def __post_init__(self) -> None:
        require(bool(self.domains), "domains", dict(self.domains), "one environment or more")
        for name, domain in self.domains.items():
            key = f"domains.{name}"
            fits = isinstance(name, str) and DOMAIN.fullmatch(name)
            require(bool(fits), "domains", name, "named by small letters, digits, - and _")
            require(
                0 < domain.weight < inf, f"{key}.weight", domain.weight, "above 0 (leave_out takes one out)"
            )
            require(domain.max_turns >= 0, f"{key}.max_turns", domain.max_turns, "at least 0 (0: all)")
            try:
                mixed = registry.spec(environment(name, domain)).mixes
                require(not mixed, f"{key}.env", environment(name, domain), "no mixture itself")
                registry.validate_options(environment(name, domain), domain.options)
            except EnvSetupError as error:
                raise EnvSetupError(f"domain {name}: {error}") from None
        known = ", ".join(self.domains)
        for name in self.leave_out:
            require(name in self.domains, "leave_out", name, f"among the domains ({known})")
        require(bool(self.trained), "leave_out", self.leave_out, f"fewer than all domains ({known})")

    @property
    def trained(self) -> dict[str, Domain]:
        """The domains that are trained on."""
        return {name: domain for name, domain in self.domains.items() if name not in self.leave_out}


def environment(name: str, domain: Domain) -> str:
    """The environment of a domain."""
    return domain.env or name

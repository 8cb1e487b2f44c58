"""docs/papers.md leads from an equation to its function and to what holds it: all of them are there."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "papers.md"
CODE = re.compile(r"`([^`]+)`")
SECTION = re.compile(r"vectors: `([^`]+)`")


def rows() -> list[tuple[str, str, str]]:
    """(equation, function, held by) of every table, without headings."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            assert len(cells) == 3, f"a row has three cells: {line}"
            if cells[0] != "Equation" and set(cells[0]) != {"-"}:
                found.append((cells[0], cells[1], cells[2]))
    return found


@cache
def defined(file: str) -> set[str]:
    """Functions and classes at the top of a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}


def in_file(place: str, mark: str) -> bool:
    """Whether `FILE<mark>NAME` is a file of ours that defines the name."""
    file, found, name = place.partition(mark)
    return bool(found) and (ROOT / file).is_file() and name in defined(file)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_the_function_of_an_equation_is_there(row: tuple[str, str, str]) -> None:
    places = CODE.findall(row[1])
    assert places
    for place in places:
        assert in_file(place, ":"), f"{place}: no such function"


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_what_holds_an_equation_is_there(row: tuple[str, str, str]) -> None:
    sections = set(json.loads((ROOT / "tests/vectors/credit.json").read_text(encoding="utf-8")))
    named = SECTION.findall(row[2])
    tests = [place for place in CODE.findall(row[2]) if place not in named]
    assert named or tests
    for name in named:
        assert name in sections, f"no section {name} of vectors"
    for place in tests:
        assert in_file(place, "::"), f"{place}: no such test"


def test_every_section_of_vectors_is_on_the_page() -> None:
    sections = set(json.loads((ROOT / "tests/vectors/credit.json").read_text(encoding="utf-8")))
    assert {name for _, _, held in rows() for name in SECTION.findall(held)} == sections


def test_a_name_that_is_not_there_is_found() -> None:
    assert in_file("learner/credit/gae.py:gae", ":")
    assert not in_file("learner/credit/gae.py:gea", ":")
    assert not in_file("learner/credit/gone.py:gae", ":")
    assert not in_file("learner/credit/gae.py", ":")

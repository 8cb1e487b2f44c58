"""docs/recipes.md: the program takes every command on it, and no recipe of the papers is left out."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentmem.app.cli import app
from agentmem.config import list_recipes, load_config
from envs.registry import validate_options

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
COMMANDS = sorted({c for c in re.findall(r"`agentmem ([^`]+)`", PAGE) if c.split()[0] in ("run", "eval")})
TRAINED_BY = {"tasks": "empo2-scienceworld-paper", "boxes": "lamer-sokoban-paper"} | {
    "mines": "lamer-minesweeper-paper",
    "eval_task_types": "lamer-alfworld-paper",
}
"""The recipe of RUN in an evaluation, by the option that its command sets."""


def recipe_of(words: list[str]) -> str:
    if words[1] != "RUN":
        return words[1]
    return next(
        (name for option, name in TRAINED_BY.items() if any(f".{option}=" in word for word in words)),
        "lamer-minesweeper-paper",
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_loads(command: str) -> None:
    words = shlex.split(command)
    assignments = [value for flag, value in itertools.pairwise(words) if flag == "--set"]
    config = load_config(recipe_of(words), assignments)
    validate_options(config.env.name, config.env.options)


@pytest.mark.parametrize("command", ["run", "eval"])
def test_the_flags_of_the_pages_commands_are_the_programs(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    flags = {w for c in COMMANDS for w in shlex.split(c) if w.startswith("--") and c.startswith(command)}
    assert all(flag in shown for flag in flags)


def test_every_recipe_of_a_paper_is_on_the_page_and_every_name_on_it_is_a_recipe() -> None:
    named = set(re.findall(r"\b(?:lamer|empo2|mempi|combined|gigpo|grpo|ppo)-[a-z0-9-]*[a-z0-9]", PAGE))
    known = set(list_recipes())
    assert named <= known
    assert {name for name in known if name.endswith("-paper")} <= named


def test_the_page_says_that_nothing_of_the_papers_was_run() -> None:
    assert "None of the recipes that end in `-paper` was run" in PAGE

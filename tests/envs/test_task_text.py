"""A task in words: its own, else the environment's rules, else its summary."""

from __future__ import annotations

from typing import Any

import pytest

from envs import registry
from envs.options import EnvSetupError
from envs.task_text import task_text


def text(name: str, instruction: str = "", **options: Any) -> str:
    return task_text(name, registry.style(name, options), instruction, "the first observation")


def test_the_instances_own_text_comes_first() -> None:
    assert text("sokoban", "Push both boxes.") == "Push both boxes."


def test_without_one_the_rules_stand_for_the_task() -> None:
    rules = text("minesweeper", format="text", mines=4)
    assert "4" in rules
    assert "the first observation" not in rules
    assert text("minesweeper", " \n", format="text", mines=4) == rules


def test_formats_of_raw_text_have_the_environments_summary() -> None:
    assert text("doors", format="compact") == registry.spec("doors").summary


def test_an_unknown_environment_is_said() -> None:
    style = registry.style("doors", {"format": "compact"})
    with pytest.raises(EnvSetupError, match="unknown environment 'chess'"):
        task_text("chess", style, "", "")
